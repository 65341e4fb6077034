"""What a study says of each line: the largest budget that passes, what fails, what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import bisect
from .cells import Cell, Line, lines_of
from .result import Result

_MANY = 4  # budgets that are named one by one


@dataclass(frozen=True)
class Ceiling:
    """Of one line: the largest budget that passed, the smallest that failed, and those between that nobody knows."""

    line: Line
    budget: int | None
    fails_at: int | None
    between: tuple[int, ...]
    above_a_failure: tuple[int, ...]

    def __str__(self) -> str:
        if self.budget is None and self.fails_at is None:
            return f"nothing is known ({self.line})"
        found = "no budget passes" if self.budget is None else f"budget {self.budget} passes"
        found += f", {self.fails_at} fails" if self.fails_at is not None else ", nothing larger was seen to fail"
        if self.between:
            found += f", {_list(self.between)} not known"
        if self.above_a_failure:
            found += f"; yet {_list(self.above_a_failure)} passed: not monotonic, a ceiling says little"
        return f"{found} ({self.line})"

    def as_json(self) -> dict[str, Any]:
        return {
            "graphs": self.line.graphs,
            "algorithm": self.line.algorithm,
            "topk": self.line.topk,
            "max_running": self.line.max_running,
            "ceiling": self.budget,
            "fails_at": self.fails_at,
            "not_known": list(self.between),
            "passed_above_a_failure": list(self.above_a_failure),
        }


def ceilings(results: Sequence[Result], asked: Sequence[Cell]) -> list[Ceiling]:
    """Returns the ceiling of each line among the cells that were asked for, tried or not."""
    of = {result.cell: result for result in results}
    return [_ceiling(line, [cell for cell in asked if cell.line == line], of) for line in lines_of(asked)]


def _ceiling(line: Line, cells: Sequence[Cell], of: Mapping[Cell, Result]) -> Ceiling:
    every = sorted(cell.budget for cell in cells)
    results = {cell.budget: of[cell] for cell in cells if cell in of}
    passed = {b: True if r.status == "good" else False if r.fails else None for b, r in results.items()}
    good, bad = bisect.bounds(every, passed)
    inside = [b for b in every if (good is None or b > good) and (bad is None or b < bad)]
    strange = [b for b in every if passed.get(b) and bad is not None and b > bad]
    return Ceiling(line, good, bad, tuple(b for b in inside if passed.get(b) is None), tuple(strange))


def _list(budgets: Sequence[int]) -> str:
    if len(budgets) > _MANY:
        return f"{len(budgets)} from {budgets[0]} to {budgets[-1]}"
    return ", ".join(str(b) for b in budgets)
