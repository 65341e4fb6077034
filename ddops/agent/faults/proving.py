"""Does a rule find its example, and leave its look-alike alone?"""

from __future__ import annotations

from ..journal import Entry
from . import table
from .detector import Detector
from .model import IGNORE, TRIAL, Rule


def found_in(line: str, phase: str = TRIAL) -> list[str]:
    """Returns the rules whose incidents a line opens, with the repetitions that they want."""
    detector = Detector(phase)
    for _ in range(max(rule.repeat for rule in table.RULES.values())):
        detector.feed(Entry(line, 0, "", 0, "", "", ""))
    return [evidence.rule for incident in detector.incidents for evidence in incident.lines]


def problems_of(rule: Rule) -> list[str]:
    """Returns what is wrong with a rule; a rule that is told by a signal has no line to be tried on."""
    if not rule.looks_like:
        return []
    problems = []
    low = rule.example.lower()
    if not any(anchor in low for anchor in rule.anchors):
        problems.append(f"{rule.name}: no anchor stands in its example")
    problems += [f"{rule.name}: anchor '{a}' holds a digit" for a in rule.anchors if any(c.isdigit() for c in a)]
    if rule.trial != IGNORE and rule.name not in found_in(rule.example):
        problems.append(f"{rule.name}: its example is not found, but {found_in(rule.example) or 'nothing'}")
    if rule.name in found_in(rule.look_alike):
        problems.append(f"{rule.name}: its look-alike is taken for it")
    return problems
