"""The sweep against a service whose ceiling is known: stop rules, retries, resuming."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from ddops.exit_codes import ExitCode
from ddops.sweep import choosing, running, study
from ddops.sweep.ceiling import ceilings
from ddops.sweep.cells import Cell
from ddops.sweep.order import ordered
from ddops.sweep.result import Result
from ddops.sweep.running import Ended
from ddops.sweep.stopping import Limits

from .made import bad, cell, good, head

CELLS = [cell(b, graphs=g) for b in (4, 8, 12, 16, 32) for g in (False, True)]


class Service:
    """Passes up to a ceiling where graphs are on, everywhere where they are off; each cell takes 100 s."""

    def __init__(self, ceiling: int, **answers: list[Result]) -> None:
        self.ceiling, self.answers = ceiling, {int(name[1:]): rest for name, rest in answers.items()}
        self.tried: list[Cell] = []
        self.now = 0.0

    def __call__(self, of: Cell, attempt: int) -> Result:
        self.tried.append(of)
        self.now += 100
        if of.graphs and (planned := self.answers.get(of.budget)):
            return planned.pop(0)
        return bad(of) if of.graphs and of.budget > self.ceiling else good(of, 100.0, 4.0)

    def budgets(self, *, graphs: bool = True) -> list[int]:
        return [c.budget for c in self.tried if c.graphs is graphs]


def unknown(budget: int, code: int = 5) -> Result:
    return Result(cell(budget), "unknown", "no space left", code=code)


def swept(
    path: Path,
    service: Service,
    cells: list[Cell] | None = None,
    limits: Limits | None = None,
    next_s: Callable[[], float | None] = lambda: 100.0,
    **more: object,
) -> tuple[study.Study, Ended]:
    cells = ordered(CELLS if cells is None else cells, cell(8))
    with study.writing(path, head(*cells)) as of:
        choose = choosing.of_grid(cells)
        ended = running.run(of, choose, service, limits or Limits(), lambda _: None, next_s, lambda: service.now)
        return of, ended


def statuses(of: study.Study, *, graphs: bool = True) -> dict[int, str]:
    return {c.budget: r.status for c, r in of.results.items() if c.graphs is graphs}


def test_after_a_failure_larger_budgets_of_its_line_are_left_out_and_the_others_are_not(tmp_path: Path) -> None:
    service = Service(8)
    of, ended = swept(tmp_path / "s", service)
    assert ended == Ended("done")
    assert service.budgets() == [8, 4, 12]
    assert service.budgets(graphs=False) == [4, 8, 12, 16, 32]
    assert statuses(of) == {8: "good", 4: "good", 12: "bad", 16: "skipped", 32: "skipped"}
    left_out = of.results[cell(16)]
    assert left_out.reason == "budget 12 failed already"
    assert left_out.why == "fault in the engine: illegal-memory-access"
    with_graphs = next(c for c in ceilings(of.found, CELLS) if c.line.graphs)
    assert (with_graphs.budget, with_graphs.fails_at, with_graphs.between) == (8, 12, ())
    assert of.complete


def test_keep_going_tries_them_all(tmp_path: Path) -> None:
    service = Service(8)
    of, _ = swept(tmp_path / "s", service, limits=Limits(keep_going=True))
    assert statuses(of) == {8: "good", 4: "good", 12: "bad", 16: "bad", 32: "bad"}


def test_a_failure_says_nothing_of_a_cell_that_asks_for_less(tmp_path: Path) -> None:
    cells = [cell(12, max_running=64), cell(16, max_running=32), cell(16, max_running=64), cell(16, algorithm="NGRAM")]
    service = Service(8)
    of, _ = swept(tmp_path / "s", service, cells)
    assert set(service.tried) == {cells[0], cells[1], cells[3]}
    assert of.results[cells[2]].status == "skipped"


def test_the_sweep_stops_after_so_many_failures(tmp_path: Path) -> None:
    service = Service(8)
    of, ended = swept(tmp_path / "s", service, limits=Limits(max_failures=2, keep_going=True))
    assert (ended.why, ended.code) == ("2 failed, --max-failures 2", 0)
    assert service.budgets() == [8, 4, 12, 16]
    assert not of.complete


def test_no_cell_begins_that_would_end_after_the_time(tmp_path: Path) -> None:
    service = Service(8)
    _, ended = swept(tmp_path / "s", service, limits=Limits(seconds=350))
    assert len(service.tried) == 3
    assert (ended.why, ended.code) == ("the next cell would end after --for", 0)
    _, again = swept(tmp_path / "s", service)
    assert again.done
    assert len(service.tried) == 8, "what was known was not tried again"


def test_a_cell_of_which_nothing_can_be_told_is_tried_once_more_and_never_bad(tmp_path: Path) -> None:
    service = Service(64, b12=[unknown(12), unknown(12)], b16=[unknown(16)])
    of, ended = swept(tmp_path / "s", service)
    assert ended.why == "3 tries in a row told nothing of a release: no space left"
    assert ended.code == ExitCode.REFUSED
    assert service.budgets() == [8, 4, 12, 12, 16]
    assert statuses(of)[12] == "unknown"

    of, ended = swept(tmp_path / "s", service)
    assert ended.done
    assert statuses(of) == {8: "good", 4: "good", 12: "good", 16: "good", 32: "good"}
    assert service.budgets()[5:] == [12, 16, 32], "what was not known was tried anew"


def test_a_sweep_of_one_cell_of_which_nothing_could_be_told_does_not_end_well(tmp_path: Path) -> None:
    service = Service(32, b8=[unknown(8, code=7), unknown(8, code=7)])
    of, ended = swept(tmp_path / "s.jsonl", service, [cell(8)])
    assert ended == Ended("2 tries in a row told nothing of a release: no space left", ExitCode.LOCKED)
    assert not of.complete
    answers = {"b8": [unknown(8, code=7), unknown(8, code=7)]}
    _, ended = swept(tmp_path / "t.jsonl", Service(32, **answers), [cell(8), cell(12)])
    assert ended.done, "the other cell has told something"


def test_one_that_passes_the_second_time_is_good(tmp_path: Path) -> None:
    service = Service(64, b12=[unknown(12)])
    of, ended = swept(tmp_path / "s", service)
    assert ended.done
    assert statuses(of)[12] == "good"


def test_a_service_that_is_down_ends_the_sweep_at_once(tmp_path: Path) -> None:
    service = Service(64, b12=[replace(bad(cell(12)), down=True)])
    of, ended = swept(tmp_path / "s", service)
    assert ended.code == ExitCode.SERVICE_DOWN
    assert service.budgets() == [8, 4, 12]
    assert study.read(of.path).stopped == "the service is down: the way back failed"


@pytest.mark.parametrize("base", [8, None])
def test_a_bisection_tries_few_and_needs_no_stop_rule(tmp_path: Path, base: int | None) -> None:
    cells = [cell(b) for b in range(1, 65)]
    service = Service(11)
    with study.writing(tmp_path / "s", head(*cells)) as of:
        ended = running.run(of, choosing.of_bisection(cells, base), service, Limits(keep_going=True), lambda _: None)
    assert ended.done
    found = ceilings(of.found, cells)[0]
    assert (found.budget, found.fails_at, found.between) == (11, 12, ())
    assert len(service.tried) <= 7
    assert str(found) == "budget 11 passes, 12 fails (graphs on, DDTREE, max running 64)"


@hypothesis(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(ceiling=st.integers(0, 40), cut=st.integers(0, 10))
def test_a_sweep_that_was_cut_anywhere_ends_with_what_an_uncut_one_has(tmp_path: Path, ceiling: int, cut: int) -> None:
    def once(service: Service, name: str) -> study.Study:
        of, _ = swept(tmp_path / name, service)
        return of

    class CutError(Exception):
        pass

    class Cut(Service):
        def __call__(self, of: Cell, attempt: int) -> Result:
            if len(self.tried) == cut:
                raise CutError
            return super().__call__(of, attempt)

    for name in ("whole", "cut"):
        (tmp_path / name).unlink(missing_ok=True)
    whole = once(Service(ceiling), "whole")
    first, second = Cut(ceiling), Service(ceiling)
    try:
        once(first, "cut")
    except CutError:
        with open(tmp_path / "cut", "ab") as file:
            file.write(b'{"event": "ended", "resu')  # what a crash leaves
    assert once(second, "cut").results == whole.results
    assert not set(first.tried) & set(second.tried), "nothing is tried twice"


def test_what_passed_above_a_failure_is_said(tmp_path: Path) -> None:
    service = Service(64, b12=[bad(cell(12))])
    of, _ = swept(tmp_path / "s", service, [cell(8), cell(12), cell(16), cell(20)], Limits(keep_going=True))
    (found,) = ceilings(of.found, [cell(8), cell(12), cell(16), cell(20)])
    assert (found.budget, found.fails_at, found.above_a_failure) == (8, 12, (16, 20))
    assert "not monotonic" in str(found)
