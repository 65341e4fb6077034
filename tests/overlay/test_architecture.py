from typing import Any

import pytest
from ddops_overlay import architecture, plugin
from ddops_overlay.settings import Settings

B300 = Settings(release="kimi-0002", arch="sm_103", verify_tile=[16, 64, 8])


@pytest.mark.parametrize(
    ("arch", "tile", "problem"),
    [
        ("sm_103", [16, 64, 8], ""),
        ("sm_120", [32, 32, 8], "the GPU is sm_120, the release is for sm_103"),
        ("sm_103", [32, 64, 8], "SGLang verifies in tiles of [32, 64, 8], the release is for [16, 64, 8]"),
    ],
)
def test_another_machine_or_tile_is_told(arch: str, tile: list[int], problem: str) -> None:
    assert architecture.find_problem(B300, arch, tile) == problem


def test_no_tile_in_the_settings_is_none_to_compare() -> None:
    assert architecture.find_problem(Settings(arch="sm_103"), "sm_103", [1, 2, 3]) == ""


def test_each_process_says_it_once_and_ends_where_it_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    ended: list[str] = []
    found = ("sm_103", [16, 64, 8])
    monkeypatch.setattr(architecture, "say", lambda key, value: said.append((key, value)))
    monkeypatch.setattr(architecture, "refuse", ended.append)
    monkeypatch.setattr(architecture, "_found", lambda: found)

    hook = architecture.hook(B300)
    assert (hook.target, hook.kind) == (architecture.BACKEND, "after")
    hook.function(None)
    hook.function(None)
    value = {"arch": "sm_103", "verify_tile": [16, 64, 8], "release": "kimi-0002", "ok": True}
    assert (said, ended) == ([("ddops_architecture", value)], [])

    found = ("sm_120", [32, 32, 8])
    architecture.hook(B300).function(None)
    assert said[1][1]["ok"] is False
    assert ended == ["the GPU is sm_120, the release is for sm_103"]


def test_it_is_hooked_for_settings_that_name_an_architecture_alone() -> None:
    assert [h.target for h in plugin._architecture_hooks(B300)] == [architecture.BACKEND]
    assert plugin._architecture_hooks(Settings()) == []
