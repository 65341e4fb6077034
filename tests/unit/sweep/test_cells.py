"""Which cells a sweep has, and in which order they are tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddops import profile as profiles
from ddops.errors import Refused, UsageError
from ddops.settings import Asked
from ddops.site import EngineEntry, HostEntry, Site
from ddops.sweep import asking
from ddops.sweep.cells import numbers, switches
from ddops.sweep.order import ordered

from .made import cell

SITE = Site(hosts={"h": HostEntry(address="h")}, engine=EngineEntry(python="/p"), model="/m", drafter="/d")
B300 = profiles.load("b300")


@pytest.mark.parametrize(
    ("text", "found"),
    [("12", (12,)), ("12,4, 8,4", (4, 8, 12)), ("4-16:4", (4, 8, 12, 16)), ("4-7,30", (4, 5, 6, 7, 30))],
)
def test_a_list_of_numbers(text: str, found: tuple[int, ...]) -> None:
    assert numbers("--budgets", text) == found


@pytest.mark.parametrize("text", ["", "4,", "8-4", "4-8:0", "0", "0-3", "-1", "4.5", "viele", "4-8:2:1", "٤"])
def test_what_is_no_list_of_numbers_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as error:
        numbers("--budgets", text)
    assert "--budgets 4,8,12" in error.value.hint


@given(st.sets(st.integers(1, 999), min_size=1))
def test_a_list_that_was_written_is_read_as_it_was(budgets: set[int]) -> None:
    assert numbers("--budgets", ",".join(map(str, budgets))) == tuple(sorted(budgets))


def test_what_nobody_names_is_as_a_deploy_has_it() -> None:
    grid = asking.grid(B300, Asked(), "8,32", None, None, None, bisects=False)
    able, ruled_out = asking.cells_of(B300, SITE, grid)
    assert [(c.budget, c.graphs, c.algorithm, c.max_running) for c in able] == [
        (8, True, "DDTREE", 64),
        (32, True, "DDTREE", 36),
    ], "max running is lowered to the ceiling of 1200 / 33"
    assert ruled_out == []


def test_what_the_arithmetic_rules_out_is_said_and_the_rest_is_tried() -> None:
    grid = asking.grid(B300, Asked(), "8,12", "both", None, "64,100", bisects=False)
    able, ruled_out = asking.cells_of(B300, SITE, grid)
    assert {(c.budget, c.max_running) for c in able} == {(8, 64), (8, 100), (12, 64)}
    assert {(r.cell.budget, r.cell.max_running, r.status) for r in ruled_out} == {(12, 100, "impossible")}
    assert "100 x 13 = 1300 verify tokens" in ruled_out[0].why


def test_a_topk_that_an_algorithm_or_a_budget_cannot_have_is_no_cell() -> None:
    grid = asking.grid(B300, Asked(), "7,9", "on", "ddtree,ngram", None, "4,8", bisects=False)
    able, ruled_out = asking.cells_of(B300, SITE, grid)
    assert {(c.budget, c.algorithm, c.topk) for c in able} == {(7, "DDTREE", 4), (9, "DDTREE", 4), (9, "DDTREE", 8)}
    assert {(r.cell.budget, r.cell.algorithm, r.cell.topk) for r in ruled_out} == {
        *((7, "DDTREE", 8), (7, "NGRAM", 4), (7, "NGRAM", 8), (9, "NGRAM", 4), (9, "NGRAM", 8))
    }
    assert str(able[0]) == "budget 7, graphs on, DDTREE k4, max running 64"
    with pytest.raises(UsageError, match="NGRAM has no topk"):
        asking.cells_of(B300, SITE, asking.grid(B300, Asked(), "8", None, "ngram", None, "4", bisects=False))


def test_where_nothing_can_be_it_is_an_error() -> None:
    lab = profiles.load("lab")
    grid = asking.grid(lab, Asked(), "8", "on", None, None, bisects=False)
    with pytest.raises(Refused, match="no graphs"):
        asking.cells_of(lab, SITE, grid)
    grid = asking.grid(lab, Asked(), "8,65", None, None, None, bisects=False)
    with pytest.raises(UsageError, match="65 is out of range"):
        asking.cells_of(lab, SITE, grid)


def test_a_bisection_has_all_budgets_and_a_sweep_those_that_are_named() -> None:
    assert asking.grid(B300, Asked(), None, None, None, None, bisects=True).budgets == tuple(range(1, 65))
    assert asking.grid(B300, Asked(budget=9), None, None, None, None, bisects=False).budgets == (9,)
    with pytest.raises(UsageError, match="which budgets"):
        asking.grid(B300, Asked(), None, None, None, None, bisects=False)
    with pytest.raises(UsageError, match="--graphs 'maybe'"):
        switches("maybe")


def test_no_cell_is_measured_with_more_streams_than_it_runs_unless_somebody_says_so() -> None:
    few = [cell(8, max_running=64), cell(12, max_running=8)]
    assert asking.measure(few, None, 16, 128, 3).concurrency == (1, 4)
    assert asking.measure(few, "2,100", 16, 128, 3).concurrency == (2, 100)


def test_the_order_keeps_what_may_crash_for_the_end() -> None:
    budgets = (4, 8, 12, 16)
    given_ = [cell(b, graphs=g) for b in reversed(budgets) for g in (True, False)]
    assert ordered(given_, cell(8)) == [
        *(cell(8), cell(4, graphs=False), cell(4), cell(8, graphs=False)),
        *(cell(12, graphs=False), cell(16, graphs=False)),
        *(cell(12), cell(16)),
    ]


def test_fewer_requests_at_once_come_first_and_nothing_comes_twice() -> None:
    given_ = [cell(12, max_running=64), cell(12, max_running=32), cell(12, max_running=64)]
    assert ordered(given_, None) == [cell(12, max_running=32), cell(12, max_running=64)]


@given(
    st.lists(st.builds(cell, st.integers(1, 64), graphs=st.booleans(), max_running=st.sampled_from([16, 64]))),
    st.none() | st.builds(cell, st.integers(1, 64), graphs=st.booleans()),
)
def test_an_order_has_every_cell_once_and_larger_ones_with_graphs_last(given_: list, good: object) -> None:  # type: ignore[type-arg]
    found = ordered(given_, good)  # type: ignore[arg-type]
    assert sorted(map(str, found)) == sorted({str(c) for c in given_})
    largest = getattr(good, "budget", 0)
    risky = [c.graphs and c.budget > largest for c in found]
    assert risky == sorted(risky)
