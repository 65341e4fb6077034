"""The corpus: lines of faults with what is to be done, lines of healthy engines and hosts with nothing to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddops.agent.faults import PHASES, RULES, Detector, Incident, classify
from ddops.agent.faults.importing import entries
from ddops.agent.faults.model import STRENGTH
from ddops.agent.faults.proving import problems_of

HERE = Path(__file__).parent


def corpus(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


FAULTS = corpus("faults.jsonl")
BENIGN = corpus("benign.jsonl")
# wrappings that keep who wrote a line open; a line of systemd or the kernel has its own
WRAPPED: dict[str, Callable[[str], str]] = {
    "cri": lambda line: f"2026-04-02T11:20:31.5Z stderr F {line}",
    "ray": lambda line: f"(SGLangEngine pid=812, ip=192.0.2.31) {line}",
    "compose": lambda line: f"engine-1  | {line}",
    "box": lambda line: f"│ {line}      │",
    "vllm": lambda line: f"(EngineCore_DP0 pid=77) ERROR 04-02 11:20:31 [core.py:801] {line}",
    "sglang": lambda line: f"[2026-04-02 11:20:31.123 DP1 TP3 EP3] {line}",
    "syslog": lambda line: f"Apr 02 11:20:31 gpu1 bash[812]: {line}",
    "python": lambda line: f"2026-04-02 11:20:31,444 - __main__ - INFO - {line}",
    "colour": lambda line: f"\x1b[31m{line[:9]}\x1b[1m{line[9:]}\x1b[0m",
    "bar": lambda line: f"\r  0%|   | 0/3\rCapturing batches:  33%|███ | 1/3\r{line}",
}


def incidents(lines: list[str], phase: str = "trial") -> list[Incident]:
    return classify(entries((line.encode() for line in lines), plain=True), Detector(phase))


def strongest(found: list[Incident]) -> str:
    return max((incident.action for incident in found), key=STRENGTH.__getitem__, default="ignore")


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: str(case["id"]))
def test_a_fault_is_found_with_its_class_and_its_action(case: dict[str, Any]) -> None:
    found = incidents(case["lines"])
    assert case["class"] in {incident.rule.fault for incident in found}
    assert strongest(found) == case["trial"]
    assert strongest(incidents(case["lines"], "promoted")) != "ignore"
    assert strongest(incidents(case["lines"], "promoted")) != "rollback"  # after promotion the policy decides


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_a_fault_is_found_in_every_wrapping(wrapping: str) -> None:
    missed = []
    for case in FAULTS:
        lines = case["lines"]
        if any(word in line for line in lines for word in ("systemd", "kernel", "NVRM", "stderr", '{"log"', "] ")):
            continue  # these are wrapped already
        if case["class"] not in {i.rule.fault for i in incidents([WRAPPED[wrapping](line) for line in lines])}:
            missed.append(case["id"])
    assert missed == []


@pytest.mark.parametrize("phase", PHASES)
def test_what_is_healthy_gives_nothing(phase: str) -> None:
    alarms = {case["lines"][0]: found for case in BENIGN if (found := incidents(case["lines"], phase))}
    assert alarms == {}


def test_all_that_is_healthy_in_one_journal_gives_nothing() -> None:
    assert incidents([line for case in BENIGN for line in case["lines"]]) == []


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: str(rule.name))
def test_a_rule_finds_its_example_and_leaves_its_look_alike(rule: Any) -> None:
    assert problems_of(rule) == []


def test_names_are_unique_and_every_rule_says_why() -> None:
    from ddops.agent.faults import table

    assert len(RULES) == len(table._ALL)
    assert all(rule.why and rule.example and rule.look_alike for rule in RULES.values())


def test_a_restart_is_never_an_action_in_a_trial() -> None:
    assert {rule.trial for rule in RULES.values()} == {"rollback", "page", "ignore"}
    assert {rule.action("starting") for rule in RULES.values()} == {"rollback", "page", "ignore"}
