"""Classifying a journal on the operator's machine, with the rules that the host itself uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .agent.faults import RULES, Detector, Incident, Scope, classify
from .agent.faults.importing import entries
from .agent.faults.model import Rule
from .agent.faults.proving import problems_of
from .errors import UsageError


def incidents(
    lines: Iterable[bytes], *, phase: str, units: list[str], plain: bool, invocation: str
) -> tuple[list[Incident], int]:
    """Returns the incidents of a journal, and of how many lines it is.

    ``journalctl -o json --all``, or plain lines of any log; raises UsageError for none at all: that proves nothing.
    """
    named = frozenset(unit if "." in unit else f"{unit}.service" for unit in units)
    read = 0

    def counted() -> Iterator[bytes]:
        nonlocal read
        for line in lines:
            read += 1
            yield line

    found = classify(entries(counted(), plain=plain), Detector(phase, Scope(named, invocation)))
    if not read:
        hint = "the unit's name after journalctl's -u, the time after --since: are they right?"
        raise UsageError("there is no line to classify", "an empty journal proves nothing", hint)
    return found, read


def explained(name: str) -> list[Rule]:
    """Returns the rule of that name, or those of the class of that name; UsageError names the nearest one."""
    if found := [r for r in RULES.values() if name in (r.name, r.fault)]:
        return found
    import difflib

    holding = [known for known in RULES if name and name in known]
    near = holding or difflib.get_close_matches(name, [*RULES, *{r.fault for r in RULES.values()}], 1)
    raise UsageError(f"no rule {name}", "", f"did you mean '{near[0]}'?" if near else "ddops faults list")


def listed() -> list[dict[str, Any]]:
    """Returns the table of rules as data."""
    return [
        {
            "rule": r.name,
            "class": r.fault,
            "trial": r.trial,
            "promoted": r.promoted,
            "severity": r.severity,
            "why": r.why,
            "looks_like": r.looks_like,
            "example": r.example,
            "look_alike": r.look_alike,
            "runbook": r.runbook,
        }
        for r in RULES.values()
    ]


@dataclass(frozen=True)
class Proof:
    """What a test of the table found."""

    rules: int
    problems: list[str]


def tested() -> Proof:
    """Tries every rule on its example and its look-alike."""
    return Proof(len(RULES), [problem for r in RULES.values() for problem in problems_of(r)])
