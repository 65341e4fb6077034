"""Site files that nobody would write, hosts that no site file names, and one bad host among good ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ddops import config, profile, settings
from ddops.cli import target
from ddops.errors import UsageError
from tests.unit.test_bad_input import SITE, ddops


@pytest.mark.parametrize(
    ("site", "says"),
    [
        ("model: !!int abc", "is not valid YAML"),
        ("model: !!float x", "is not valid YAML"),
        ("model: " + "1" * 5000, "is not valid YAML"),
        ("model: " + "[" * 3000, "is not valid YAML"),
        ("model: 2024-13-45", "'2024-13-45' is not an absolute path"),
        ("overlay: {diffs: ~nobody-of-that-name/x}", "there is no such user"),
    ],
)
def test_a_site_file_that_nobody_would_write_is_told_as_what_it_is(site: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(f"hosts: {{h: {{address: a}}}}\nengine: {{python: /p}}\n{site}\n")
    code, error, stderr = ddops(tmp_path, "profile", "show", "lab", "--site", str(path))
    assert code == 2
    assert says in error["what"] + error["why"], stderr


def test_a_date_in_a_profile_is_text(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("since: 2024-01-01\nat: 2024-01-01 10:00:00\n")
    assert config.layer(tmp_path / "p.yaml").value == {"since": "2024-01-01", "at": "2024-01-01 10:00:00"}


def test_a_site_file_that_is_wrong_is_not_taken_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in effect is not known then; without any site file it is the profile's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("DDOPS_SITE", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "DDOPS_LAB_DIR"):
        monkeypatch.delenv(name, raising=False)
    shown = settings.resolve("lab", None, None, settings.Asked(), need_site=False)
    assert (shown.host, shown.profile.name) == (None, "lab")
    Path("ddops.yaml").write_text("hosts: [")
    with pytest.raises(UsageError, match="is not valid YAML"):
        settings.resolve("lab", None, None, settings.Asked(), need_site=False)
    Path("ddops.yaml").unlink()
    monkeypatch.setenv("DDOPS_SITE", "/nope.yaml")
    with pytest.raises(UsageError, match=r"there is no site file /nope\.yaml"):
        settings.resolve("lab", None, None, settings.Asked(), need_site=False)


@pytest.mark.parametrize("with_a_site", [True, False])
def test_the_host_of_the_environment_is_as_good_as_the_option(with_a_site: bool, tmp_path: Path) -> None:
    site_file = {"DDOPS_SITE": str(tmp_path / "site.yaml")} if with_a_site else {}
    (tmp_path / "site.yaml").write_text(SITE)
    done = subprocess.run(
        [sys.executable, "-m", "ddops", "rollback", "--json"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DDOPS_HOST": "root@127.0.0.1:1", **site_file},
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 6, done.stderr
    assert json.loads(done.stdout)["error"]["what"] == "cannot connect to root@127.0.0.1:1"


@pytest.mark.parametrize("host", ["root@127.0.0.1:1", "local"])
def test_a_host_of_no_site_file_has_none_of_its_overrides(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by the option or by the environment, and also where the site has several hosts."""
    both = "hosts: {a: {address: h, overrides: {deadlines: {answer: 7}}}, b: {address: h}}"
    path = tmp_path / "two.yaml"
    path.write_text(f"{both}\nengine: {{python: /p}}\nmodel: /m\nprofiles: {{lab: {{deadlines: {{stop: 11}}}}}}\n")
    monkeypatch.setenv("DDOPS_HOST", host)
    for named in (None, host):
        found = target.profile(named, path, "lab")
        assert (found.deadlines.answer, found.deadlines.stop) == (profile.load("lab").deadlines.answer, 11)


def test_one_host_with_a_missing_key_hides_no_other(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(SITE.replace("hosts: {", "hosts: {gpu-2: {address: h, identity_file: /no/key}, "))
    for verb, findings in ((["site", "check"], "findings"), (["doctor"], "checks")):
        done = subprocess.run(
            [sys.executable, "-m", "ddops", *verb, "--json", "--site", str(path)],
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        hosts = {each["host"]: json.dumps(each[findings]) for each in json.loads(done.stdout)["hosts"]}
        assert done.returncode == 6
        assert "identity_file is not there" in hosts["gpu-2"]
        assert "Connection refused" in hosts["gpu-1"]
