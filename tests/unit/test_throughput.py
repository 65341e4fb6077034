"""Throughput: the best run counts, known-good's figure is the floor, and what was not measured does not pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ddops.agent import sending
from ddops.agent.engine import Engine
from ddops.agent.errors import GateFailed, NotBetter
from ddops.agent.gates import throughput

SETTINGS = {"prompts": ["a", "b"], "tokens": 33, "repeats": 2, "tolerance": 0.1}


class Paced(Engine):
    """Streams 33 tokens, one in each part, at each run's pace by a clock of its own; ``late``: all read at the end."""

    def __init__(self, *paces: float, late: bool = False) -> None:
        super().__init__("127.0.0.1", 1)
        object.__setattr__(self, "state", {"paces": list(paces), "asked": 0, "now": 0.0, "late": late})

    def flush_cache(self, timeout: float) -> None:
        pass

    def stream(self, path: str, body: dict[str, Any], timeout: float) -> Iterator[Any]:
        state = self.state  # type: ignore[attr-defined]
        pace = state["paces"][state["asked"] // len(SETTINGS["prompts"])]  # type: ignore[arg-type]
        state["asked"] += 1
        state["now"] += 33 * pace if state["late"] else 0
        for number in range(33):
            state["now"] += 1e-6 if state["late"] else pace
            yield {"meta_info": {"completion_tokens": number + 1}}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    def of(engine: Paced) -> Paced:
        monkeypatch.setattr(sending, "time", SimpleNamespace(perf_counter=lambda: engine.state["now"]))  # type: ignore[attr-defined]
        return engine

    return of


def test_the_best_run_counts(clock: Any) -> None:
    found = throughput.measure(clock(Paced(0.02, 0.01)), SETTINGS, 9)
    assert found == {"tok_s": 100.0, "runs": [50.0, 100.0], "quiet": True}


@pytest.mark.parametrize(("pace", "change"), [(0.01, 0.0), (0.011, -0.0909), (0.005, 1.0)])
def test_within_the_tolerance_or_faster_passes(clock: Any, pace: float, change: float) -> None:
    known = {"tok_s": 100.0, "runs": [100.0], "quiet": True}
    found = throughput.throughput(clock(Paced(pace, pace)), known, SETTINGS, 9, accept_slower=False)
    assert found["change"] == pytest.approx(change, abs=1e-4)
    assert found["accepted_slower"] is False


def test_slower_is_not_better_unless_it_is_accepted(clock: Any) -> None:
    known = {"tok_s": 100.0, "runs": [100.0], "quiet": True}
    with pytest.raises(NotBetter, match="80 tok/s, 20% less") as raised:
        throughput.throughput(clock(Paced(0.0125, 0.0125)), known, SETTINGS, 9, accept_slower=False)
    assert raised.value.record()["code"] == "not-better"
    assert raised.value.evidence["known_good"] == known
    found = throughput.throughput(clock(Paced(0.0125, 0.0125)), known, SETTINGS, 9, accept_slower=True)
    assert (found["tok_s"], found["accepted_slower"]) == (80.0, True)


def test_a_first_release_is_measured_and_not_compared(clock: Any) -> None:
    found = throughput.throughput(clock(Paced(0.01, 0.01)), None, SETTINGS, 9, accept_slower=False)
    assert (found["tok_s"], "change" in found) == (100.0, False)


def test_a_reader_that_was_kept_waiting_does_not_make_an_engine_fast(clock: Any) -> None:
    assert throughput.measure(clock(Paced(0.01, 0.01, late=True)), SETTINGS, 9)["tok_s"] == pytest.approx(100, rel=0.01)


def test_a_stream_that_lacks_tokens_is_no_measurement(clock: Any) -> None:
    with pytest.raises(GateFailed, match="a stream failed"):
        throughput.measure(clock(Paced(0.01, 0.01)), {**SETTINGS, "tokens": 40}, 9)


@pytest.mark.parametrize(("busy_at", "quiet"), [(None, True), (0, False), (1, False), (2, False)])
def test_it_is_quiet_only_where_nobody_was_served_before_and_after_each_run(
    busy_at: int | None, quiet: bool, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count()
    monkeypatch.setattr(throughput, "flush", lambda _: next(asked) != busy_at)
    assert throughput.measure(clock(Paced(0.01, 0.01)), SETTINGS, 1)["quiet"] is quiet
    assert next(asked) == 3, "the cache is emptied for the trial and for known-good alike"
