"""What is known of a combination, on this stack or another, and how long nobody would be served."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from ddops import deploy, downtime, evidence, overlay, profile
from ddops.agent import entries, errors, systemd
from ddops.agent import evidence as on_host
from ddops.agent.errors import AgentError, Cancelled, EngineFault, GateFailed, NoAnswer
from ddops.agent.fault import Fault
from ddops.agent.faults import Detector
from ddops.agent.faults.model import TRIAL
from ddops.agent.journal import Entry
from ddops.agent.layout import Layout, layout_of
from ddops.agent.watch import lost
from ddops.errors import Refused
from ddops.profile import Profile
from ddops.render import Options
from ddops.settings import Asked
from ddops.site import EngineEntry, HostEntry, Site

SITE = Site(hosts={"h": HostEntry(address="h")}, engine=EngineEntry(python="/p"), model="/m")
B300 = profile.load("b300")


def options(budget: int, graphs: bool = True, of: Profile = B300) -> Options:
    return deploy.options_of(of, SITE, deploy.Request(asked=Asked(budget=budget, graphs=graphs)))[0]


@pytest.mark.parametrize(("budget", "graphs", "outcome"), [(8, True, "good"), (12, True, "bad"), (16, False, "good")])
def test_the_fields_evidence_is_of_another_stack_and_no_reason_to_refuse(
    budget: int, graphs: bool, outcome: str
) -> None:
    known = evidence.of_profile(B300, options(budget, graphs))
    assert [(entry.outcome, entry.same_stack) for entry in known] == [(outcome, False)]
    assert known[0].other == ("algorithm", "sglang", "overlay")
    evidence.require(known)


def test_nothing_is_known_of_what_nobody_tried() -> None:
    assert evidence.of_profile(B300, options(20)) == []
    assert evidence.of_profile(B300, options(8, graphs=False)) == []


@pytest.mark.parametrize(
    ("changes", "refused"),
    [({}, True), ({"outcome": "good"}, False), ({"sglang": "0.5.15"}, False), ({"overlay": "0" * 64}, False)],
)
def test_bad_on_the_very_same_stack_is_refused(changes: dict[str, Any], refused: bool) -> None:
    same = {"algorithm": "NGRAM", "sglang": "0.5.16", "overlay": overlay.sha256()}
    entry = B300.evidence[1].model_copy(update=same | changes)
    known = evidence.of_profile(B300.model_copy(update={"evidence": [entry]}), options(12))
    if refused:
        with pytest.raises(Refused, match="proven bad on this stack"):
            evidence.require(known)
    else:
        evidence.require(known)


STACK = {"sglang": "0.5.16", "environment": "e", "model": "m"}
SUMMARY = {"release": 3, "profile": "lab", "budget": 12, "graphs": False, "algorithm": "NGRAM", "overlay": "o"}


def told(
    folder: Path, number: int, outcome: str, failed: str | None = None, error: Exception | None = None, **release: Any
) -> Layout:
    layout = layout_of("lab", folder / "state", folder / "run")
    layout.operations.mkdir(parents=True, exist_ok=True)
    steps = [{"step": "load", "seconds": 2.0 + number, "ok": True}, {"step": "drain", "seconds": 0.5, "ok": True}]
    steps += [{"step": failed, "seconds": 1.0, "ok": False}] if failed else []
    document = {
        "kind": "deploy",
        "outcome": outcome,
        "ended": "2026-01-01T00:00:00Z",
        "reason": errors.of(error or GateFailed("it broke")).record() if failed else None,
        "release": {**SUMMARY, "stack": STACK, **release},
        "steps": steps,
    }
    (layout.operations / f"{number:06d}.json").write_text(json.dumps(document))
    return layout


def wanted(**changes: Any) -> dict[str, Any]:
    return on_host.combination({**SUMMARY, **changes}, {**STACK, **{k: v for k, v in changes.items() if k in STACK}})


def test_a_combination_that_failed_by_itself_is_proven_bad_on_the_host(tmp_path: Path) -> None:
    layout = told(tmp_path, 1, "rolled-back", "soak")
    assert on_host.proven_bad(entries.from_files(layout), wanted()) is not None
    for other in (
        {"overlay": "p"},
        {"sglang": "0.5.17"},
        {"environment": "f"},
        {"model": "n"},
        {"algorithm": "DDTREE"},
    ):
        assert on_host.proven_bad(entries.from_files(layout), wanted(**other)) is None, other
        assert [e["other"] for e in on_host.of(entries.from_files(layout), wanted(**other))] == [list(other)], (
            "it is a warning still"
        )
    elsewhere: list[dict[str, Any]] = [{"budget": 13}, {"graphs": True}, {"profile": "b300"}]
    for setting in elsewhere:
        assert on_host.of(entries.from_files(layout), wanted(**setting)) == [], setting


def test_what_failed_at_one_topk_says_nothing_of_another(tmp_path: Path) -> None:
    layout = told(tmp_path, 1, "rolled-back", "soak", algorithm="DDTREE", topk=4)
    tried = entries.from_files(layout)
    assert on_host.proven_bad(tried, wanted(algorithm="DDTREE", topk=4)) is not None
    assert on_host.proven_bad(tried, wanted(algorithm="DDTREE", topk=6)) is None
    [other] = on_host.of(tried, wanted(algorithm="DDTREE", topk=6))
    assert (other["algorithm"], other["other"]) == ("DDTREE k4", ["algorithm"])


@pytest.mark.parametrize(("tried", "asked"), [(64, 8), (8, 64)])
def test_what_failed_with_so_many_requests_says_nothing_of_another_number(
    tried: int, asked: int, tmp_path: Path
) -> None:
    layout = told(tmp_path, 1, "rolled-back", "soak", max_running=tried)
    assert on_host.proven_bad(entries.from_files(layout), wanted(max_running=tried)) is not None
    assert on_host.proven_bad(entries.from_files(layout), wanted(max_running=asked)) is None
    [other] = on_host.of(entries.from_files(layout), wanted(max_running=asked))
    assert other["other"] == ["max running"]
    told(tmp_path, 2, "promoted", max_running=asked)
    assert on_host.proven_bad(entries.from_files(layout), wanted(max_running=tried)) is not None


@pytest.mark.parametrize(
    ("error", "faults", "verdict"),
    [
        (GateFailed("wrong"), [], "bad"),
        (NoAnswer("no answer came"), [], "bad"),
        (EngineFault("fault"), ["illegal_memory_access"], "bad"),
        (EngineFault("fault"), ["gpu_fallen_off_bus"], None),
        (EngineFault("fault"), ["illegal_memory_access", "disk_full"], None),
        (Cancelled("ended by an operator"), [], None),
        (AgentError("an internal error"), [], None),
    ],
)
def test_bad_is_never_what_the_machine_or_a_person_did(
    error: AgentError, faults: list[str], verdict: str | None
) -> None:
    outcome = {
        "kind": "deploy", "outcome": "rolled-back", "reason": error.record(),
        "steps": [{"step": "soak", "ok": False}], "faults": [{"rule": "r", "fault": fault} for fault in faults],
    }  # fmt: skip
    assert on_host.verdict(outcome) == verdict


def test_a_journal_that_cannot_be_read_is_the_machines_fault() -> None:
    unit = systemd.Unit("u", "", "", "", 1, "", "", "", False, "", "", ())
    outcome = {
        "kind": "deploy", "outcome": "rolled-back", "reason": EngineFault("fault").record(),
        "steps": [{"step": "soak", "ok": False}], "faults": [lost(unit, OSError("Input/output error")).record()],
    }  # fmt: skip
    assert on_host.verdict(outcome) is None


def test_what_a_sweep_has_measured_takes_no_proof_away(tmp_path: Path) -> None:
    layout = told(tmp_path, 1, "rolled-back", "soak")
    told(tmp_path, 2, "measured")
    assert on_host.proven_bad(entries.from_files(layout), wanted()) is not None
    measured = {"kind": "deploy", "outcome": "measured", "measured": [{"failed": 0}]}
    assert on_host.verdict(measured) == "measured"
    assert on_host.verdict({**measured, "measured": [{"failed": 0}, {"failed": 9}]}) == "bad"


def test_the_class_of_a_fault_stands_in_its_record() -> None:
    detector = Detector(TRIAL)
    line = "OSError: [Errno 28] No space left on device"
    [change] = detector.feed(Entry(line, 1, "c", 1, "python3", "stdout", ""))
    assert Fault.of(change.incident).record()["fault"] == "disk_full"


def test_a_full_disk_proves_nothing_of_a_release(tmp_path: Path) -> None:
    layout = told(tmp_path, 1, "rolled-back", "soak", OSError(errno.ENOSPC, "No space left on device"))
    assert on_host.proven_bad(entries.from_files(layout), wanted()) is None
    told(tmp_path, 1, "rolled-back", "soak", GateFailed("a wrong answer"))
    assert on_host.proven_bad(entries.from_files(layout), wanted()) is not None


def test_the_newest_proof_counts(tmp_path: Path) -> None:
    layout = told(tmp_path, 1, "rolled-back", "soak")
    told(tmp_path, 2, "promoted")
    assert on_host.proven_bad(entries.from_files(layout), wanted()) is None
    told(tmp_path, 3, "rolled-back", "load")
    assert on_host.proven_bad(entries.from_files(layout), wanted()) is not None


@pytest.mark.parametrize(
    ("outcome", "failed", "release"),
    [
        ("rolled-back", "stop", {}),
        ("rolled-back", "confirm", {}),
        ("refused", "preflight", {}),
        ("rolled-back", "soak", {"drill": {"name": "garbage"}}),
    ],
)
def test_what_was_no_fault_of_its_own_proves_nothing(
    tmp_path: Path, outcome: str, failed: str, release: dict[str, Any]
) -> None:
    assert on_host.of(entries.from_files(told(tmp_path, 1, outcome, failed, **release)), wanted()) == []


def test_the_time_without_service_is_the_sum_of_the_last_measured_steps() -> None:
    gates = {"ready": 1.0, "smoke": 2.0, "lossless": 3.0, "acceptance": 4.0, "throughput": 5.0, "eval-coding": 90.0}
    steps = {"drain": 0.5, "stop": 2.5, "load": 600.0, "soak": 99.0, "record": 7.0, **gates}
    assert downtime.predict(steps, None, [], records=False).seconds == 0.5 + 2.5 + 600 + 15
    assert downtime.predict(steps, None, [], records=True).seconds == 0.5 + 2.5 + 600 + 15 + 7
    assert "about 618 s" in str(downtime.predict(steps, None, [], records=False))
    assert downtime.predict(steps, None, ["coding"], records=False).seconds == 0.5 + 2.5 + 600 + 15 + 90
    assert downtime.predict(steps, None, ["coding", "load"], records=False).parts["gates"] is None


def test_a_part_that_was_never_measured_is_not_guessed() -> None:
    found = downtime.predict({"drain": 0.5, "stop": 2.0}, 600.0, [], records=False)
    assert found.seconds is None
    assert found.parts == {"drain": 0.5, "stop": 2.0, "load": 600.0, "gates": None}
    assert "gates ?" in str(found)
