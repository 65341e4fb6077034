"""The soak tells a late answer from a wrong one."""

from __future__ import annotations

import itertools
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from ddops.agent import restore, service, soak
from ddops.agent.errors import GateFailed, NoAnswer
from ddops.agent.gates.smoke import raise_worst

LATE, WRONG = NoAnswer("no answer", "timed out"), GateFailed("a wrong answer", "'!!!!'")


@pytest.mark.parametrize(
    ("rounds", "raised"),
    [
        ([None, LATE, None, LATE, None], None),
        ([None, LATE, LATE], LATE),
        ([LATE], "the last one was late, and the next is right"),
        ([None, WRONG], WRONG),
        ([LATE, WRONG], WRONG),
    ],
)
def test_two_late_answers_in_a_row_or_one_wrong_end_it(
    rounds: list[Exception | None], raised: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    left = iter(rounds)

    @contextmanager
    def step(_: str) -> Any:
        yield {}

    def turn(*_: Any) -> None:
        if (error := next(left, None)) is not None:
            raise error

    monkeypatch.setattr(soak, "_round", turn)
    monkeypatch.setattr(soak, "ROUND_EVERY_S", 0.0)
    log = SimpleNamespace(step=step, write=lambda event, what: said.append(what))
    op: Any = SimpleNamespace(
        request={"soak_s": 0.6}, log=log, check=lambda: None, rather_its_fault=lambda judge: judge()
    )
    trial: Any = SimpleNamespace()
    if not isinstance(raised, Exception):
        soak.run(op, trial, SimpleNamespace(lines=0), None)  # type: ignore[arg-type]
        assert next(left, "all were asked") == "all were asked"
        assert len(said) == rounds.count(LATE)
        return
    with pytest.raises(GateFailed) as caught:
        soak.run(op, trial, SimpleNamespace(lines=0), None)  # type: ignore[arg-type]
    assert caught.value is raised


@pytest.mark.parametrize(("answers", "ends"), [([LATE, {}], False), ([LATE, LATE], True), ([WRONG], True)])
def test_a_known_good_that_serves_is_not_ended_for_one_late_answer(
    answers: list[Any], ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(answers)

    def asked(*_: Any) -> Any:
        if isinstance(answer := next(left), Exception):
            raise answer
        return answer

    monkeypatch.setattr(restore, "smoke", asked)
    monkeypatch.setattr(service, "engine_of", lambda _: None)
    release: Any = SimpleNamespace(gates={"smoke": {}}, deadlines={"answer": 1})
    if ends:
        with pytest.raises(GateFailed):
            restore._asked_again(release)
    else:
        assert restore._asked_again(release) == {}
    assert next(left, None) is None


@pytest.mark.parametrize("hangs", [True, False])
def test_an_engine_that_is_silent_at_the_end_is_asked_once_more(hangs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer takes longer to be missed than the soak has left."""
    rounds = iter([LATE, LATE] if hangs else [LATE, None])

    @contextmanager
    def step(_: str) -> Any:
        yield {}

    clock = itertools.count(step=8)  # each look at it finds that an answer's time has gone by

    def turn(*_: Any) -> None:
        if (error := next(rounds)) is not None:
            raise error

    monkeypatch.setattr(soak, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
    monkeypatch.setattr(soak, "_round", turn)
    log = SimpleNamespace(step=step, write=lambda *_, **__: None)
    op: Any = SimpleNamespace(
        request={"soak_s": 9}, log=log, check=lambda: None, rather_its_fault=lambda judge: judge()
    )
    if hangs:
        with pytest.raises(NoAnswer):
            soak.run(op, SimpleNamespace(), SimpleNamespace(lines=0), None)  # type: ignore[arg-type]
    else:
        soak.run(op, SimpleNamespace(), SimpleNamespace(lines=0), None)  # type: ignore[arg-type]
    assert next(rounds, "both were asked") == "both were asked"


def test_a_wrong_answer_is_not_hidden_by_a_late_one_beside_it() -> None:
    def failed(error: Exception) -> Future[Any]:
        job: Future[Any] = Future()
        job.set_exception(error)
        return job

    right: Future[Any] = Future()
    right.set_result("Paris")
    raise_worst([right])
    with pytest.raises(GateFailed) as caught:
        raise_worst([failed(LATE), right, failed(WRONG)])
    assert caught.value is WRONG
    with pytest.raises(NoAnswer):
        raise_worst([failed(LATE), right])
