"""The fault that ends an operation, as outcomes hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .faults import Incident


@dataclass(frozen=True)
class Fault:
    """A fault, the line that shows it, and when that line was written (microseconds, host's clock)."""

    rule: str
    why: str
    line: str
    pid: int
    time_us: int
    cursor: str
    fault: str = ""  # its class, by the table

    @classmethod
    def of(cls, incident: Incident) -> Fault:
        """Returns the fault that an incident's first line shows."""
        first, rule = incident.first, incident.rule
        return cls(rule.name, incident.why, first.line, first.pid, first.time_us, first.cursor, rule.fault)

    def record(self) -> dict[str, Any]:
        """Returns the fault as outcomes hold it."""
        return dict(vars(self))
