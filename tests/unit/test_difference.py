"""What a release changes, line by line, and what it does not."""

from __future__ import annotations

from typing import Any

from ddops import deploy, profile, render
from ddops.difference import against
from ddops.settings import Asked
from ddops.site import EngineEntry, HostEntry, Site

SITE = Site(hosts={"h": HostEntry(address="h")}, engine=EngineEntry(python="/p/bin/python"), model="/m")


def rendered(budget: int, site: Site = SITE, **changes: Any) -> render.Rendered:
    wanted = profile.load("b300").model_copy(update=changes)
    options, _ = deploy.options_of(wanted, site, deploy.Request(asked=Asked(budget=budget)))
    return render.release(wanted, site, "kimi", options, 4)


def live(release: render.Rendered, **files: str) -> dict[str, Any]:
    texts = {name: data.decode() for name, data in release.files.items() if name != "launch"}
    return {"release": 4, "adopted": False, "files": texts | files}


def changed(before: dict[str, Any], after: render.Rendered) -> dict[str, list[str]]:
    parts = against(before, after)
    return {p.part: [line for line in p.lines if line[0] in "+-"] for p in parts}


def test_the_same_release_differs_in_nothing() -> None:
    assert changed(live(rendered(8)), rendered(8)) == {}


def test_a_budget_differs_in_the_command_and_the_description() -> None:
    found = changed(live(rendered(8)), rendered(32))
    assert sorted(found["launch command"]) == [
        "+--cuda-graph-max-bs-decode 36",
        "+--max-running-requests 36",
        "+--speculative-num-draft-tokens 33",
        "---cuda-graph-max-bs-decode 64",
        "---max-running-requests 64",
        "---speculative-num-draft-tokens 9",
    ]
    assert found["unit"] == [
        "-Description=SGLang kimi release 4: NGRAM budget 8, graphs on",
        "+Description=SGLang kimi release 4: NGRAM budget 32, graphs on",
    ]
    assert set(found) == {"launch command", "unit"}


def test_environment_and_overlay_differ_line_by_line() -> None:
    plugin = "overlay/ddops_overlay/say.py"
    text = rendered(8).files[plugin].decode()
    other = live(
        rendered(8), **{plugin: text.replace("import json\n", "import json as j\n"), "overlay/gone.py": "x\ny\n"}
    )
    del other["files"]["overlay/ddops_overlay/pins.py"]
    debug = profile.load("b300").launch
    debug = debug.model_copy(update={"environment": {**debug.environment, "NCCL_DEBUG": "INFO"}})
    found = changed(other, rendered(8, launch=debug))
    assert found["environment"] == ['-NCCL_DEBUG="WARN"', '+NCCL_DEBUG="INFO"']
    assert found[plugin] == ["-import json as j", "+import json"]
    assert found["overlay/gone.py"] == ["- gone: 2 lines"]
    assert found["overlay/ddops_overlay/pins.py"][0].startswith("+ new: ")


def test_an_odd_value_is_shown_as_the_process_gets_it() -> None:
    odd = SITE.model_copy(update={"model": "/m %u $HOME"})
    found = changed(live(rendered(8)), rendered(8, odd))
    assert found["launch command"] == ["---model-path /m", "+--model-path /m %u $HOME"]


def test_of_an_adopted_unit_the_command_is_compared_and_the_text_is_shown() -> None:
    arguments = ["/p/bin/python", "-m", "sglang.launch_server", "--model-path", "/m", "--api-key", "(hidden)"]
    before = {
        "release": 0,
        "adopted": True,
        "arguments": arguments,
        "files": {"sglang.service": "[Service]\nRestart=always\n"},
    }
    found = changed(before, rendered(8))
    assert "+--speculative-num-draft-tokens 9" in found["launch command"]
    assert "---api-key (hidden)" in found["launch command"]
    assert "+/p/bin/python" not in found["launch command"]
    assert "-Restart=always" in found["unit (sglang.service, not changed)"]
