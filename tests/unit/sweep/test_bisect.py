"""The bisection, against services whose ceiling is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ddops.sweep import bisect


def bisected(
    budgets: list[int], ceiling: int, silent: frozenset[int] = frozenset(), base: int | None = None
) -> dict[int, bool | None]:
    """Bisects a service on which a budget passes up to its ceiling; of silent ones nothing can be told."""
    passed: dict[int, bool | None] = {}
    while (budget := bisect.following(budgets, passed, base)) is not None:
        assert budget not in passed, "none is tried twice"
        passed[budget] = None if budget in silent else budget <= ceiling
    return passed


BUDGETS = st.sets(st.integers(1, 64), min_size=1).map(sorted)


@given(BUDGETS, st.integers(0, 65), st.none() | st.integers(1, 64))
def test_the_ceiling_of_a_monotonic_service_is_found_in_few_tries(
    budgets: list[int], ceiling: int, base: int | None
) -> None:
    passed = bisected(budgets, ceiling, base=base)
    good, bad = bisect.bounds(budgets, passed)
    assert good == max((b for b in budgets if b <= ceiling), default=None)
    assert bad == min((b for b in budgets if b > ceiling), default=None)
    assert len(passed) <= bisect.at_most(len(budgets))


@given(BUDGETS, st.integers(0, 65), st.frozensets(st.integers(1, 64)))
def test_what_cannot_be_told_is_never_taken_for_bad_and_stands_between_the_bounds(
    budgets: list[int], ceiling: int, silent: frozenset[int]
) -> None:
    passed = bisected(budgets, ceiling, silent)
    good, bad = bisect.bounds(budgets, passed)
    assert good is None or good <= ceiling
    assert bad is None or bad > ceiling
    between = [b for b in budgets if (good or 0) < b < (bad or 99)]
    assert set(between) <= silent
    assert all(passed[b] is None for b in between)


def test_known_good_is_the_first_to_be_tried() -> None:
    assert bisect.following([4, 8, 12, 16], {}, 8) == 8
    assert bisect.following([4, 12, 16], {}, 8) == 4
    assert bisect.following([4, 8, 12, 16, 20], {8: True}, 8) == 16
    assert bisect.following([4, 8, 12], {8: False}, 8) == 4
    assert bisect.following([], {}, 8) is None
