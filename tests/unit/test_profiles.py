"""The profiles are their own documentation: file and model have the same keys, and the pages are current."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from ddops import profile, resources, site
from ddops.errors import UsageError

ROOT = Path(__file__).parents[2]
NAMES = profile.names()


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


REFERENCE = reference()
# mappings whose keys are the user's, SGLang's or the environment's
FREE = {
    ("launch", "arguments"),
    ("launch", "environment"),
    ("speculation", "[]", "arguments"),
    ("gates", "smoke", "request"),
}


def keys_of_file(text: str, free: set[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Returns the keys of a file with what is said above their first appearance."""
    said: dict[tuple[str, ...], str] = {}
    for key in REFERENCE.keys(text):
        if not any(key.path[: len(f)] == f and key.path != f for f in free):
            said[key.path] = said.get(key.path) or key.above
    return said


def values_of_file(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Returns the keys of a file as YAML itself reads them."""
    if isinstance(value, dict) and path not in FREE:
        return {p for k, v in value.items() for p in {(*path, k)} | values_of_file(v, (*path, k))}
    if isinstance(value, list):
        return {p for entry in value for p in values_of_file(entry, (*path, "[]"))}
    return set()


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_described_and_none_is_missing(name: str) -> None:
    text = (resources.folder("profiles") / f"{name}.yaml").read_text()
    said = keys_of_file(text, FREE)
    assert said.keys() == values_of_file(yaml.safe_load(text)), "the comments were not read as YAML reads the keys"
    assert [".".join(path) for path, comment in said.items() if not comment] == []
    missing = set(REFERENCE.model_keys(profile.Profile)) - set(said)
    # what is null or empty has nothing below it
    empty = {path for path in missing if any(path[:at] in said for at in range(1, len(path)))}
    assert missing - empty == set()


def test_every_key_of_the_model_is_described_in_the_file_that_the_page_is_made_from() -> None:
    said = keys_of_file((resources.folder("profiles") / "b300.yaml").read_text(), FREE)
    assert set(REFERENCE.model_keys(profile.Profile)) - set(said) == set()


def test_every_key_of_the_site_is_described() -> None:
    text = (resources.folder("templates") / "site.yaml").read_text()
    said = {
        tuple("NAME" if p == "gpu-1" else p for p in path): comment
        for path, comment in keys_of_file(text, set()).items()
    }
    known = set(REFERENCE.model_keys(site.Site))
    # below a part of a host that is null: described where the site itself has that part
    assert {key for key in known - set(said) if key[2:] not in said} == set()
    assert set(said) - known == {("hosts", "NAME")}
    assert [path for path, comment in said.items() if not comment and path in known] == []
    assert site.Site.model_validate(yaml.safe_load(text)).hosts["gpu-1"].profile == "b300"


@pytest.mark.parametrize("name", sorted(REFERENCE.pages()))
def test_the_pages_are_current(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == REFERENCE.pages()[name], "run: python docs/reference.py"


def test_what_was_not_run_on_the_hardware_says_so() -> None:
    for name in ("b300", "rtx-pro-6000"):
        text = (resources.folder("profiles") / f"{name}.yaml").read_text()
        assert "Nothing in this file was run on" in text.split("name:")[0]
        assert all("not on a GPU" in entry.proven for entry in profile.load(name).hardening)


def test_the_field_report_is_in_the_b300_profile_as_data() -> None:
    found = {
        (e.budget, e.graphs): (e.outcome, e.accept_length, e.tokens_per_second) for e in profile.load("b300").evidence
    }
    assert found == {
        (8, True): ("good", 4.48, 285),
        (12, True): ("bad", None, None),
        (16, True): ("bad", None, None),
        (16, False): ("good", 5.8, 111),
        (32, True): ("bad", 1.0, None),
    }


def test_the_tile_of_hopper_asks_for_what_it_is_known_to_and_does_not_fit_sm_120(tmp_path: Path) -> None:
    assert profile.Tile(queries=32, keys=64, warps=8).shared_memory_bytes == 106496
    text = (resources.folder("profiles") / "rtx-pro-6000.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("    keys: 32", "    keys: 64"))
    with pytest.raises(UsageError, match="needs 106496 bytes of shared memory, sm_120 has 101376"):
        profile.load(str(path))


def test_the_tensor_parallel_size_is_the_number_of_gpus(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text((resources.folder("profiles") / "b300.yaml").read_text().replace("tp-size: 8", "tp-size: 4"))
    with pytest.raises(UsageError, match="tp-size is not the 8 of hardware"):
        profile.load(str(path))
