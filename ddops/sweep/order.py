"""In which order cells are tried: what is learnt before the first crash is kept, so the safe ones come first."""

from __future__ import annotations

from collections.abc import Iterable

from .cells import Cell


def ordered(cells: Iterable[Cell], known_good: Cell | None) -> list[Cell]:
    """Returns the cells, the likeliest to pass first.

    Known-good's own combination is the base that all is compared with. Then come the budgets that are not above its
    own, then the larger ones without graphs, whose accept length projects what graphs would give, and last the larger
    ones with graphs, where the field's crashes were; each part by budget, fewer requests at once first.
    """
    budget = known_good.budget if known_good else 0
    given = list(dict.fromkeys(cells))
    algorithms = list(dict.fromkeys(cell.algorithm for cell in given))

    def risk(cell: Cell) -> tuple[int, int, bool, int, int, int]:
        if cell == known_good:
            part = 0
        elif cell.budget <= budget:
            part = 1
        else:
            part = 3 if cell.graphs else 2
        return part, cell.budget, cell.graphs, cell.max_running, algorithms.index(cell.algorithm), cell.topk or 0

    return sorted(given, key=risk)
