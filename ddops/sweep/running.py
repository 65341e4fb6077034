"""The sweep itself: cell after cell until all are known, a rule stops it, or the host is no ground to go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..exit_codes import ExitCode
from .cells import Cell
from .choosing import Choose
from .result import Result
from .stopping import Limits, over, pruned_by
from .study import Study

TRIES = 2  # of a cell of which nothing can be told
_STRIKES = 3  # tries in a row that say nothing of their release: it is the host then

Attempt = Callable[[Cell, int], Result]
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Ended:
    """Why a sweep ended, and the exit code that says so."""

    why: str
    code: ExitCode = ExitCode.OK

    @property
    def done(self) -> bool:
        return self.why == "done"


DOWN = Ended("the service is down: the way back failed", ExitCode.SERVICE_DOWN)


def run(
    study: Study,
    choose: Choose,
    attempt: Attempt,
    limits: Limits,
    report: Report,
    next_s: Callable[[], float | None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
) -> Ended:
    """Tries cells and stores what came of each; returns why it ended.

    ``attempt`` tries a cell and brings known-good back; ``next_s`` predicts how long the next one takes.
    What an earlier run could not tell, or left out by a rule, is considered anew.
    """
    began, failures, strikes = clock(), 0, 0
    known = {cell: result for cell, result in study.results.items() if result.decided}
    tries: dict[Cell, int] = {}
    while (cell := choose(known)) is not None:
        failed = None if limits.keep_going else pruned_by(cell, known.values())
        if failed is not None:
            known[cell] = _left_out(cell, failed)
            _store(study, known[cell], report)
            continue
        if why := over(limits, failures, clock() - began, next_s()):
            return stopped(study, Ended(why))
        tries[cell] = tries.get(cell, 0) + 1
        report({"event": "sweep-cell", "cell": cell, "attempt": tries[cell], "known": len(known)})
        result = attempt(cell, tries[cell])
        strikes = strikes + 1 if result.status == "unknown" else 0
        _store(study, result, report)
        if result.down:
            return stopped(study, DOWN)
        again = result.status == "unknown" and tries[cell] < TRIES
        if not again:
            known[cell] = result
        # ... or all that there were, of fewer cells
        if strikes >= _STRIKES or (strikes == sum(tries.values()) and not again and choose(known) is None):
            code = ExitCode(result.code or ExitCode.ROLLED_BACK)
            return stopped(study, Ended(f"{strikes} tries in a row told nothing of a release: {result.reason}", code))
        failures += result.status == "bad"
    return stopped(study, Ended("done"))


def _left_out(cell: Cell, failed: Result) -> Result:
    asked_less = f"budget {failed.cell.budget}"
    if failed.cell.max_running != cell.max_running:
        asked_less += f", max running {failed.cell.max_running}"
    return Result(cell, "skipped", f"{asked_less} failed already", failed.reason)


def _store(study: Study, result: Result, report: Report) -> None:
    study.write("ended", result=result.as_json())
    report({"event": "sweep-ended", "result": result})


def stopped(study: Study, ended: Ended) -> Ended:
    """Stores why a sweep ended, and returns it."""
    study.write("stopped", why=ended.why, code=int(ended.code))
    return ended
