"""An incident: every line of one fault, named by its first cause."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .model import Rule

_KEPT = 20  # lines that an incident keeps; the rest is counted
_LOOKED_AT = 2000  # lines that are searched for ranks and GPUs: a device assert writes one for each of its threads
_AROUND = 400  # characters that are kept on either side of the fault's words
_PCI = re.compile(r"\bPCI:((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2})", re.IGNORECASE)
_GPU = re.compile(r"\bGPU[ :]?(\d{1,2})\b|\bcuda:(\d{1,2})\b|\bgpu_id=(\d{1,2})\b", re.IGNORECASE)
_XID = re.compile(r"\bXid (?:\(PCI:[^)]{0,40}\): )?(\d+)", re.IGNORECASE)


class Evidence(NamedTuple):
    """One line that shows a fault. ``time_us``: microseconds by the host's clock, 0 where the input has no time."""

    rule: str
    line: str
    pid: int
    time_us: int
    cursor: str
    unit: str

    def record(self) -> dict[str, Any]:
        return self._asdict()


@dataclass
class Incident:
    """``rule`` may change to one that is nearer to the cause; ``first`` is then the first line of that rule."""

    number: int
    rule: Rule
    phase: str
    first: Evidence
    invocation: str = ""
    why: str = ""
    count: int = 0
    last_us: int = 0
    lines: list[Evidence] = field(default_factory=list)
    ranks: set[str] = field(default_factory=set)
    gpus: set[str] = field(default_factory=set)
    xids: set[int] = field(default_factory=set)

    @property
    def action(self) -> str:
        return self.rule.action(self.phase)

    def add(self, evidence: Evidence, ranks: tuple[str, ...]) -> None:
        """Counts a line of this incident; the first ones are kept."""
        self.count += 1
        self.last_us = max(self.last_us, evidence.time_us)
        if len(self.lines) < _KEPT:
            self.lines.append(evidence)
        if self.count > _LOOKED_AT:
            return
        self.ranks.update(ranks)
        self.gpus.update(found.lower() for found in _PCI.findall(evidence.line))
        self.gpus.update(next(filter(None, found)) for found in _GPU.findall(evidence.line))
        self.xids.update(int(found) for found in _XID.findall(evidence.line))

    def named_by(self, rule: Rule, evidence: Evidence, why: str = "") -> None:
        """Names the incident after a line that is nearer to its cause."""
        self.rule, self.first, self.why = rule, evidence, why or rule.why

    def record(self) -> dict[str, Any]:
        """Returns the incident as it goes into outcomes and onto the screen."""
        return {
            "class": self.rule.fault,
            "action": self.action,
            "rule": self.rule.name,
            "severity": self.rule.severity,
            "phase": self.phase,
            "why": self.why or self.rule.why,
            "first": self.first.record(),
            "lines": [evidence.line for evidence in self.lines],
            "count": self.count,
            "ranks": sorted(self.ranks),
            "gpus": sorted(self.gpus),
            "xids": sorted(self.xids),
            "invocation": self.invocation,
            "runbook": self.rule.runbook,
        }


def excerpt(found: re.Match[str]) -> str:
    """Returns the words of a fault with what stands around them."""
    return found.string[max(0, found.start() - _AROUND) : found.end() + _AROUND].strip("\n")
