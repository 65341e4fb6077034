"""Files that users write: what is wrong, where, and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddops import config, profile, resources, site
from ddops.errors import UsageError

GOOD_SITE = """
hosts:
  b300-1:
    address: 192.0.2.1
engine:
  python: /opt/sglang/bin/python
model: /models/kimi
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(text)
    return path


def test_a_site_is_read(tmp_path: Path) -> None:
    read = config.read(write(tmp_path, GOOD_SITE), site.Site)
    assert read.hosts["b300-1"].address == "192.0.2.1"
    assert read.hosts["b300-1"].lab is False


@pytest.mark.parametrize(
    ("old", "new", "says", "hint"),
    [
        ("    address:", "    adress:", "site.yaml:4: unknown key 'hosts.b300-1.adress'", "did you mean 'address'?"),
        ("model:", "modle:", "site.yaml:7: unknown key 'modle'", "did you mean 'model'?"),
        ("  python: /opt/sglang/bin/python", "  python: [1]", "site.yaml:6: engine.python", ""),
    ],
)
def test_a_wrong_key_is_named_with_its_line(tmp_path: Path, old: str, new: str, says: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        config.read(write(tmp_path, GOOD_SITE.replace(old, new)), site.Site)
    assert says in caught.value.what
    assert caught.value.hint == hint


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        config.read(write(tmp_path, GOOD_SITE + "model: /other\n"), site.Site)
    assert "the key 'model' is there twice" in caught.value.why


def test_every_profile_is_valid() -> None:
    for name in profile.names():
        assert profile.load(name).name == name


def test_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        profile.load("labb")
    assert caught.value.hint == "did you mean 'lab'?"


def test_a_profile_of_ones_own_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text((resources.folder("profiles") / "lab.yaml").read_text().replace("soak: 60", "soak: 5"))
    assert profile.load(str(path)).soak == 5
