"""A plan as it is made from what a host says, and as people read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ddops import deploy, overlay, profile, render
from ddops.cli import planned
from ddops.deploy import Plan, Request
from ddops.errors import Refused
from ddops.profile import Profile
from ddops.settings import Asked
from ddops.site import EngineEntry, HostEntry, Site

HOST = HostEntry(address="192.0.2.1")
SITE = Site(hosts={"gpu-1": HOST}, engine=EngineEntry(python="/p/bin/python"), model="/m", drafter="/d")
B300 = profile.load("b300")


def release(budget: int, number: int) -> render.Rendered:
    options, _ = deploy.options_of(B300, SITE, Request(asked=Asked(budget=budget)))
    return render.release(B300, SITE, "kimi", options, number)


@dataclass
class StandIn:
    """Answers as the agent of a host on which release 4, budget 8, is live and known-good."""

    service: str = "kimi"
    sglang: str = "0.5.16"
    asked: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    evidence: list[dict[str, Any]] = field(default_factory=list)

    def begin(self) -> None:
        pass

    def ask(self, call: str, **args: Any) -> Any:
        self.asked.append(call)
        if call == "texts":
            texts = {n: d.decode() for n, d in release(8, 4).files.items() if n != "launch"}
            return {"release": 4, "adopted": False, "files": texts}
        self.about = args["about"]
        live = {"release": 4, "unit": "kimi-0004.service", "budget": 8, "fingerprint": release(8, 4).fingerprint}
        steps = {"drain": 1.0, "stop": 20.0, "load": 600.0, "ready": 5.0, "smoke": 5.0, "lossless": 20.0}
        suites = {"eval-coding": 90.0, "eval-garbage": 30.0, "eval-load": 60.0}
        return {
            "hostname": "gpu-1",
            "next_release": 7,
            "live": live,
            "known_good": live,
            "live_runs": True,
            "measured_load": 600.0,
            "measured_steps": steps | {"acceptance": 10.0, "throughput": 6.0, **suites},
            "records": False,
            "stack": {"sglang": self.sglang, "environment": "e", "model": "m"},
            "evidence": self.evidence,
            "ledger_problem": "",
            "exposure": "8.4 EXPOSED",
        }


def planned_for(agent: StandIn, wanted: Profile = B300, *, compare: bool = True, **request: Any) -> Plan:
    return deploy.plan(agent, wanted, SITE, HOST, Request(**request), compare=compare)  # type: ignore[arg-type]


class Bare(StandIn):
    """A host that has nothing of the service yet."""

    host = SimpleNamespace(name="gpu-1")

    def ask(self, call: str, **args: Any) -> Any:
        return {"release": None} if call == "texts" else {**super().ask(call, **args), "live": None, "known_good": None}


def text(made: Plan) -> str:
    lines: list[str] = []
    planned.show(made, lines.append)
    return "\n".join(lines)


def test_the_main_use_is_a_warning_with_the_evidence_and_every_figure() -> None:
    said = text(planned_for(StandIn(), asked=Asked(budget=12, graphs=True)))
    for line in (
        "plan: kimi on gpu-1, release 7",
        "  budget 12, verify width 13, graphs on, DDTREE, topk 8",
        "  live      release 4 (kimi-0004.service, budget 8)",
        "  way back  release 4 (kimi-0004.service, budget 8)",
        "  limits    verify width N = 12 + 1 = 13",
        "            max running 64 = min(64, 1200 / 13)",
        "            mask 64 x 13 x (32768 + 13) bytes = 26.0 MiB on each GPU",
        "            verify tile 16 x 64: 88 of 227 KiB of shared memory (sm_103)",
        "  evidence  bad on another sglang, overlay: DDTREE, field: CUDA error: an illegal memory access "
        "was encountered (topk 6, max running 64)",
        "  stack     SGLang 0.5.16, the environment and the model are there",
        f"  overlay   sha256 {overlay.sha256()[:12]}",
        "  changes   against the live release:",
        "      ---speculative-num-draft-tokens 9",
        "      +--speculative-num-draft-tokens 13",
        "  no service: about 847 s, as last measured: drain 1.0 + stop 20.0 + load 600.0 + gates 226.0 s; then a soak "
        "of 600 s with users on it",
    ):
        assert line in said.splitlines(), said
    assert "8.4 EXPOSED" in said


def test_another_sglang_on_the_host_is_said() -> None:
    said = text(planned_for(StandIn(sglang="0.5.12"), asked=Asked(budget=8)))
    assert "  stack     SGLang 0.5.12, the profile is for 0.5.16" in said.splitlines()


def test_a_lowered_max_running_is_said() -> None:
    said = text(planned_for(StandIn(), asked=Asked(budget=32)))
    assert "max running 36 = min(64, 1200 / 33): lowered from 64 to hold the ceiling" in said


def test_what_the_host_has_seen_is_evidence_too() -> None:
    seen = {"outcome": "bad", "release": 5, "algorithm": "DDTREE", "what": "it broke", "ended": "then", "times": 1}
    seen |= {"subject": "deploy", "other": [], "changed": []}
    driver = {"name": "driver", "was": "580.1", "now": "590.2"}
    stale = {**seen, "outcome": "good", "release": 4, "times": 3, "other": ["driver"], "changed": [driver]}
    agent = StandIn(evidence=[seen, stale])
    made = planned_for(agent, asked=Asked(budget=20))
    said = text(made).splitlines()
    assert "  evidence  bad on this stack: DDTREE as release 5: it broke (then)" in said
    at = said.index("  evidence  good on another driver: DDTREE as release 4: it broke (then; 3 times, the newest)")
    assert said[at + 1] == "            stale: driver 580.1 is now 590.2"
    sent = {
        key: agent.about["combination"][key] for key in ("profile", "budget", "graphs", "algorithm", "topk", "overlay")
    }
    assert sent == {
        "profile": "b300", "budget": 20, "graphs": True, "algorithm": "DDTREE", "topk": 8,
        "overlay": overlay.sha256(),
    }  # fmt: skip
    assert agent.about["unit"].startswith("# kimi-0000.service")


def test_bad_on_the_same_stack_needs_force() -> None:
    same = {"algorithm": "DDTREE", "sglang": "0.5.16", "overlay": overlay.sha256()}
    bad = B300.model_copy(update={"evidence": [B300.evidence[1].model_copy(update=same)]})
    with pytest.raises(Refused, match="proven bad on this stack"):
        planned_for(StandIn(), bad, asked=Asked(budget=12))
    assert planned_for(StandIn(), bad, asked=Asked(budget=12), force=True).known[0].same_stack


def test_a_deploy_asks_the_host_once_and_does_not_read_the_live_texts() -> None:
    agent = StandIn()
    made = planned_for(agent, compare=False, asked=Asked(budget=8))
    assert agent.asked == ["facts"]
    assert made.differences is None
    assert made.unchanged


def test_where_nothing_is_live_everything_changes() -> None:
    assert (
        "  changes   all: nothing is live" in text(planned_for(Bare(), first=True, asked=Asked(budget=8))).splitlines()
    )


@pytest.mark.parametrize(
    ("profile", "hint"),
    [
        (None, "ddops adopt UNIT, or --first"),
        ("b300", "ddops adopt UNIT, or --first"),
        ("mine/b300.yaml", "ddops adopt UNIT, or --first"),
        ("lab", "ddops deploy lab, as the site file says; else ddops adopt UNIT, or --first"),
    ],
)
def test_a_service_that_is_not_there_may_be_one_of_another_profile(profile: str | None, hint: str) -> None:
    entry = HostEntry(address="gpu-1", profile=profile)
    with pytest.raises(Refused) as caught:
        deploy.plan(Bare(), B300, SITE, entry, Request(asked=Asked(budget=8)))  # type: ignore[arg-type]
    assert caught.value.hint.startswith(hint)
