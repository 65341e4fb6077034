"""What came of a cell, and whether it says something of the release: bad is never what the host was to blame for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..agent.evidence import judged, words
from ..errors import DdopsError
from .cells import Cell, of_json

Status = Literal["good", "bad", "known-bad", "unknown", "skipped", "impossible"]
_STATUS: dict[str, Status] = {"measured": "good", "bad": "bad"}  # of what the host judged; a cell is never promoted


@dataclass(frozen=True)
class Result:
    """What came of a cell.

    good: passed and measured. bad: it failed by itself. known-bad: proven bad before, on this very stack, not tried.
    unknown: something else failed, tried twice. skipped: a rule of the sweep left it out. impossible: the arithmetic
    or the profile rules it out. ``down``: whatever it was, the way back failed and the service is down. ``lines`` are
    the last ones of a failed engine's journal.
    """

    cell: Cell
    status: Status
    reason: str = ""
    why: str = ""
    step: str = ""
    faults: tuple[dict[str, Any], ...] = ()
    lines: tuple[str, ...] = ()
    measured: tuple[dict[str, Any], ...] = ()
    accepted: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    operation: int | None = None
    release: int | None = None
    drill: str | None = None
    down: bool = False
    code: int = 0
    attempt: int = 1

    @property
    def fails(self) -> bool:
        """True where the combination itself is at fault, seen now or before."""
        return self.status in ("bad", "known-bad")

    @property
    def decided(self) -> bool:
        """True where trying again would tell nothing new."""
        return self.status in ("good", "bad", "known-bad", "impossible")

    @property
    def accept_length(self) -> float | None:
        """Returns tokens a verify step: at the smallest concurrency that tells it, else the acceptance gate's mean."""
        told = [row["accept_length"] for row in self.measured if row.get("accept_length") is not None]
        gate = list(self.accepted.values())
        return float(told[0]) if told else sum(gate) / len(gate) if gate else None

    def at(self, concurrency: int) -> dict[str, Any] | None:
        """Returns what was measured at a concurrency, None where nothing was."""
        return next((row for row in self.measured if row["concurrency"] == concurrency), None)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"accept_length": self.accept_length}


def of_record(record: dict[str, Any]) -> Result:
    """Returns the result that ``as_json`` wrote; raises KeyError or TypeError for anything else."""
    own = {k: v for k, v in record.items() if k in Result.__dataclass_fields__}
    lists = {k: tuple(own[k]) for k in ("faults", "lines", "measured")}
    return Result(**{**own, **lists, "cell": of_json(record["cell"])})


def of_outcome(cell: Cell, outcome: dict[str, Any], attempt: int = 1) -> Result:
    """Returns what an operation's outcome, as the host stored it, says of a cell."""
    reason = outcome.get("reason") or {}
    release = outcome.get("release") or {}
    step = next((s["step"] for s in outcome.get("steps", []) if not s["ok"]), "")
    return Result(
        cell=cell,
        status=_STATUS.get(judged(outcome) or "", "unknown"),
        reason=_named(outcome),
        why="" if outcome["outcome"] == "measured" else str((outcome.get("rollback") or reason).get("why", "")),
        step=step,
        faults=tuple({k: f.get(k) for k in ("rule", "line", "why", "unit", "pid")} for f in outcome.get("faults", [])),
        measured=tuple(outcome.get("measured") or ()),
        accepted=_accepted(outcome),
        seconds=float(outcome.get("seconds", 0.0)),
        operation=outcome.get("operation"),
        release=release.get("release"),
        down=outcome["outcome"] == "rollback-failed" or outcome.get("host", {}).get("active", "active") != "active",
        drill=(release.get("drill") or {}).get("name"),
        attempt=attempt,
    )


def of_error(cell: Cell, error: DdopsError, attempt: int = 1) -> Result:
    """Returns the result of a cell that could not be tried: the host or the way to it failed, not the release."""
    return Result(cell, "unknown", error.what, error.why, code=int(error.exit_code), attempt=attempt)


def _named(outcome: dict[str, Any]) -> str:
    said = words(outcome)
    return "" if said == "measured" else said


def _accepted(outcome: dict[str, Any]) -> dict[str, float]:
    """Returns what the acceptance gate measured, nothing where it did not come so far."""
    for verdict in outcome.get("verdicts", []):
        if verdict["gate"] == "acceptance":
            found: dict[str, float] = (verdict.get("evidence") or {}).get("accept_length") or {}
            return found
    return {}
