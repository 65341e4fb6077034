"""What is not worth a try any more, and when a sweep stops by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .cells import Cell
from .result import Result


@dataclass(frozen=True)
class Limits:
    """When to stop: after so many failures (None: never), after so many seconds (None: never)."""

    max_failures: int | None = None
    seconds: float | None = None
    keep_going: bool = False


def pruned_by(cell: Cell, results: Iterable[Result]) -> Result | None:
    """Returns the failure that makes a cell not worth a try, None where there is none.

    It is one of the same graphs, algorithm and topk that asked for no more: no larger a budget and no more requests at
    once. What breaks there is not expected to hold here.
    """
    for result in results:
        other = result.cell
        less = other.budget <= cell.budget and other.max_running <= cell.max_running and other != cell
        if result.fails and less and (other.graphs, other.line.drafting) == (cell.graphs, cell.line.drafting):
            return result
    return None


def over(limits: Limits, failures: int, spent: float, next_s: float | None) -> str:
    """Returns why the sweep stops before its next cell, '' where it goes on.

    ``spent`` seconds went by; the next cell is not begun where its predicted ``next_s`` would end too late.
    """
    if limits.max_failures is not None and failures >= limits.max_failures:
        return f"{failures} failed, --max-failures {limits.max_failures}"
    if limits.seconds is not None and spent + (next_s or 0.0) >= limits.seconds:
        return "the time of --for is over" if spent >= limits.seconds else "the next cell would end after --for"
    return ""
