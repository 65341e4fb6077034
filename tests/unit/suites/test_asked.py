"""What the suites ask is asked as the profile says, through the manifest of a release."""

from __future__ import annotations

from typing import Any

import pytest

from ddops import manifests, profile
from ddops.agent import baseline, evaluate, recording, stack
from ddops.agent.gates import lossless, throughput
from ddops.agent.layout import Layout
from ddops.agent.releases import Release
from ddops.site import EngineEntry, HostEntry, Site

SITE = Site(hosts={"h": HostEntry(address="h")}, engine=EngineEntry(python="/p"), model="/m")


@pytest.mark.parametrize(
    ("name", "request_of_it"),
    [
        ("b300", {"chat_template_kwargs": {"thinking": False}}),
        ("rtx-pro-6000", {"chat_template_kwargs": {"thinking": False}}),
        ("lab", {}),
    ],
)
@pytest.mark.parametrize("suite", ["coding", "garbage"])
def test_a_model_that_thinks_is_told_not_to_in_the_suites_too(
    name: str, suite: str, request_of_it: dict[str, Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = profile.load(name)
    manifest = manifests.spec(of, SITE, "kimi")
    manifest["engine"] |= {"host": "127.0.0.1", "port": 1, "speculates": True}
    asked: list[Any] = []

    def put(_: Any, settings: dict[str, Any], *__: Any) -> dict[str, Any]:
        asked.append(settings["request"])
        return {}

    monkeypatch.setattr(evaluate, suite, put)
    settings = of.suites.model_dump()[suite]
    evaluate.judge(Layout("kimi", tmp_path, tmp_path), Release(1, tmp_path, "", manifest), suite, settings, print)
    assert asked == [request_of_it]


@pytest.mark.parametrize("alone", [True, False])
def test_how_fast_known_good_was_with_users_on_it_is_no_measure(
    alone: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = manifests.spec(profile.load("lab"), SITE, "lab")
    manifest["engine"] |= {"host": "127.0.0.1", "port": 1, "speculates": False}
    monkeypatch.setattr(recording, "smoke", lambda *_: None)
    monkeypatch.setattr(lossless, "record", lambda *_: [])
    monkeypatch.setattr(throughput, "measure", lambda *_: {"tok_s": 9.0, "runs": [9.0], "quiet": True})
    layout = Layout("lab", tmp_path, tmp_path)
    known_good = Release(0, tmp_path, "s", manifest)
    recording.record(layout, known_good, manifest["gates"], 1, alone=alone)
    found = baseline.stored(layout, known_good, manifest["gates"], quiet=True)
    assert (found is not None) is alone
    assert baseline.stored(layout, known_good, manifest["gates"]) is not None
    monkeypatch.setattr(stack, "driver", lambda: "590.12.01")
    assert baseline.stored(layout, known_good, manifest["gates"], quiet=True) is None, "it may be another speed now"
    assert baseline.stored(layout, known_good, manifest["gates"]) is not None, "the answers are to be the same"
