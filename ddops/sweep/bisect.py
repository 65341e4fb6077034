"""The ceiling by bisection: the largest budget that passes, if all below it pass and all above it fail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def bounds(budgets: Sequence[int], passed: Mapping[int, bool | None]) -> tuple[int | None, int | None]:
    """Returns the smallest budget that fails and the largest below it that passes, None for those not known yet.

    ``passed`` says of each budget that was tried whether it passed; None: that could not be told.
    """
    failing = min((b for b in budgets if passed.get(b) is False), default=None)
    below = [b for b in budgets if passed.get(b) and (failing is None or b < failing)]
    return max(below, default=None), failing


def following(budgets: Sequence[int], passed: Mapping[int, bool | None], base: int | None = None) -> int | None:
    """Returns the budget to try next, None where the ceiling is known as well as it can be.

    The first is ``base`` where it is among the budgets, else the smallest: what is known to work. Then the one in the
    middle of what is not known; where that one could not be told, the nearest to it that was not tried.
    """
    ordered = sorted(budgets)
    if not ordered:
        return None
    if not passed:
        return base if base in ordered else ordered[0]
    good, bad = bounds(ordered, passed)
    inside = [b for b in ordered if (good is None or b > good) and (bad is None or b < bad)]
    open_ones = [b for b in inside if b not in passed]
    if not open_ones:
        return None
    middle = inside[len(inside) // 2]
    return min(open_ones, key=lambda b: abs(inside.index(b) - inside.index(middle)))


def at_most(budgets: int) -> int:
    """Returns how many tries a bisection of so many budgets takes at most: the base and the halvings."""
    return 0 if budgets < 1 else 1 + math.ceil(math.log2(budgets))
