"""What an outcome says of a release, and what it says of everything else."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.agent import evidence
from ddops.agent.faults import RULES
from ddops.errors import Locked
from ddops.sweep.result import of_error, of_outcome, of_record

from .made import FAULT, cell


def outcome(name: str, step: str = "", code: str = "gate-failed", *rules: str, **more: Any) -> dict[str, Any]:
    return {
        "outcome": name, "operation": 7, "seconds": 12.5, "release": {"release": 4},
        "reason": {"code": code, "what": "it failed", "why": "for a reason"},
        "steps": [{"step": "preflight", "ok": True}, *([{"step": step, "ok": False}] if step else [])],
        "faults": [{**FAULT, "rule": rule, "fault": RULES[rule].fault} for rule in rules],
        "host": {"active": "active"}, **more,
    }  # fmt: skip


@pytest.mark.parametrize("step", ["load", "ready", "smoke", "lossless", "acceptance", "eval-coding", "measure"])
@pytest.mark.parametrize("code", ["gate-failed", "engine-fault"])
def test_what_the_release_did_is_bad(step: str, code: str) -> None:
    found = of_outcome(cell(12), outcome("rolled-back", step, code, "illegal-memory-access"))
    assert (found.status, found.step, found.fails, found.down) == ("bad", step, True, False)
    assert (found.reason, found.why, found.operation, found.release) == ("it failed", "for a reason", 7, 4)
    assert found.faults == (FAULT,)


@pytest.mark.parametrize(
    "of",
    [
        outcome("refused", "preflight", "refused"),
        outcome("rolled-back", "load", "cancelled"),
        outcome("rolled-back", "record", "gate-failed"),
        outcome("rolled-back", "stop", "gate-failed"),
        outcome("rolled-back", "load", "failed"),
        outcome("rolled-back", "", "failed"),
        outcome("rolled-back", "load", "engine-fault", "disk-full"),
        outcome("rolled-back", "smoke", "engine-fault", "illegal-memory-access", "xid-79"),
        outcome("rolled-back", "load", "engine-fault", "oom-killer"),
    ],
)
def test_what_the_host_or_a_person_did_is_never_bad(of: dict[str, Any]) -> None:
    found = of_outcome(cell(12), of)
    assert (found.status, found.fails, found.decided) == ("unknown", False, False)


def test_every_class_that_speaks_of_the_host_is_one_of_the_table() -> None:
    assert {rule.fault for rule in RULES.values()} >= evidence.OF_THE_HOST


def test_an_error_on_the_way_is_unknown_with_its_code() -> None:
    found = of_error(cell(12), Locked("it is locked", "by another"))
    assert (found.status, found.reason, found.why, found.code) == ("unknown", "it is locked", "by another", 7)


def test_a_service_that_is_down_is_said_whatever_the_release_did() -> None:
    down = of_outcome(cell(12), outcome("rollback-failed", "load", "engine-fault", rollback={"what": "w", "why": "y"}))
    assert (down.status, down.down, down.why) == ("bad", True, "y")
    read_back = of_outcome(cell(12), outcome("measured", measured=[], host={"active": "failed"}))
    assert read_back.down is True


def test_what_was_measured_is_good_unless_requests_failed() -> None:
    row = {"concurrency": 4, "tok_s": 700.0, "accept_length": 4.5, "failed": 0}
    verdicts = [{"gate": "acceptance", "passed": True, "evidence": {"accept_length": {"cold": 4.0, "warm": 6.0}}}]
    found = of_outcome(cell(8), outcome("measured", measured=[row], verdicts=verdicts))
    assert (found.status, found.reason, found.why, found.accept_length) == ("good", "", "", 4.5)
    gate_only = of_outcome(cell(8), outcome("measured", measured=[{**row, "accept_length": None}], verdicts=verdicts))
    assert gate_only.accept_length == 5.0
    failed = of_outcome(cell(8), outcome("measured", measured=[{**row, "failed": 2}]))
    assert (failed.status, failed.reason) == ("bad", "2 requests failed while it was measured")


def test_a_result_is_read_as_it_was_written() -> None:
    found = of_outcome(cell(12, graphs=False), outcome("rolled-back", "load", "engine-fault", "illegal-memory-access"))
    assert of_record(found.as_json()) == found
