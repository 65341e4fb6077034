"""Which cell comes next, of a grid or of a bisection, by what is known so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from . import bisect
from .cells import Cell, lines_of
from .result import Result

Choose = Callable[[Mapping[Cell, Result]], Cell | None]


def of_grid(cells: Sequence[Cell]) -> Choose:
    """Returns what takes the cells in their order."""
    return lambda known: next((cell for cell in cells if cell not in known), None)


def of_bisection(cells: Sequence[Cell], base: int | None) -> Choose:
    """Returns what bisects the budgets of each line, one line after another; ``base`` is known-good's budget."""
    return partial(_bisected, cells, base)


def _bisected(cells: Sequence[Cell], base: int | None, known: Mapping[Cell, Result]) -> Cell | None:
    for line in lines_of(cells):
        of_line = {cell.budget: cell for cell in cells if cell.line == line}
        results = {budget: known[cell] for budget, cell in of_line.items() if cell in known}
        passed = {b: True if r.status == "good" else False if r.fails else None for b, r in results.items()}
        if budget := bisect.following(list(of_line), passed, base):
            return of_line[budget]
    return None
