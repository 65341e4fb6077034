"""The arithmetic of a bench, on streams whose times are known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddops.agent import figures
from ddops.agent.figures import Slo
from ddops.agent.stream import Part, Stream
from ddops.bench import plot, slo
from ddops.errors import UsageError


def steady(began: float, tokens: int = 5, first: float = 0.5, gap: float = 0.25, **more: object) -> Stream:
    """A stream with a token a part: the first after ``first`` seconds, then every ``gap``."""
    parts = tuple(Part(began + first + gap * n, n + 1) for n in range(tokens))
    return Stream(began, parts[-1].at, parts, 3, **more)  # type: ignore[arg-type]


def test_the_figures_of_two_streams_are_exact() -> None:
    found = figures.of_run([steady(0), steady(1)], Slo(ttft=0.5), 1)
    assert (found["requests"], found["failed"], found["prompt_tokens"], found["output_tokens"]) == (2, 0, 6, 10)
    assert found["seconds"] == 2.5
    assert found["tok_s"] == 4
    assert found["stream_tok_s"] == 4
    assert (found["ttft_ms_p50"], found["ttft_ms_mean"], found["ttft_ms_p99"]) == (500, 500, 500)
    assert (found["itl_ms_p50"], found["tpot_ms_p50"], found["latency_ms_p50"]) == (250, 250, 1500)
    assert (found["attainment"], found["goodput"]) == (1, 2 / 2.5)
    assert found["accept_length"] is None


def test_a_failed_request_counts_against_and_its_tokens_for_nothing() -> None:
    failed = Stream(0, 2.5, (Part(0.1, 4),), 3, error="reset")
    found = figures.of_run([steady(0), failed, steady(1), Stream(0, 0, error="refused")], Slo(latency=9), 2)
    assert (found["requests"], found["failed"], found["output_tokens"]) == (4, 2, 10)
    assert found["tok_s"] == 4
    assert (found["attainment"], found["goodput"]) == (0.5, 0.8)
    assert found["ttft_ms_mean"] == 500, "the failed one's first token flattered"


@pytest.mark.parametrize(
    ("limits", "met"),
    [(Slo(), 1), (Slo(ttft=0.49), 0), (Slo(tpot=0.25), 1), (Slo(tpot=0.24), 0), (Slo(ttft=0.5, latency=1.49), 0)],
)
def test_every_limit_of_an_slo_has_to_be_kept(limits: Slo, met: int) -> None:
    assert limits.met(steady(0)) == met


def test_the_gap_before_a_part_is_spread_over_its_tokens() -> None:
    stream = Stream(0, 4, (Part(1, 1), Part(2, 5), Part(3, 5), Part(4, 6)))
    assert figures.inter_token(stream) == [0.25, 0.25, 0.25, 0.25, 1]
    assert stream.tpot == 3 / 5


def test_the_steady_window_of_a_closed_loop_begins_whole_and_ends_before_the_tail() -> None:
    streams = [Stream(0, 4), Stream(1, 5), Stream(4, 9), Stream(5, 7)]
    assert figures.window(streams, 2) == (1, 5)
    assert figures.window([Stream(0, 3), Stream(0, 4)], 2) == (0, 3)


def test_the_steady_window_of_an_open_loop_ends_with_the_last_arrival() -> None:
    assert figures.window([Stream(0, 2), Stream(1, 3), Stream(6, 8)], None) == (2, 6)
    assert figures.window([Stream(0, 5), Stream(1, 6)], None) == (0, 6), "no steady part: the whole run"


def test_only_tokens_of_the_window_count_for_the_steady_rate() -> None:
    streams = [steady(0, 8, 1, 1), steady(1, 8, 1, 1), steady(8, 4, 1, 1), steady(9, 4, 1, 1)]
    start, stop = figures.window(streams, 2)
    assert (start, stop) == (1, 9)
    assert figures.of_run(streams, Slo(), 2)["steady_tok_s"] == (7 + 8 + 1) / 8


def test_the_accept_length_is_the_middle_of_the_streams() -> None:
    parts = [1, *range(4, 61, 3)]  # 3 tokens a step
    stream = Stream(0, 9, tuple(Part(n, t) for n, t in enumerate(parts)), steps=len(parts) - 1)
    assert figures.accept_length([stream]) == 3
    joined = Stream(0, 9, stream.parts[::2], steps=len(parts) - 1)
    assert figures.accept_length([joined]) == pytest.approx(3, rel=0.1)
    assert figures.accept_length([stream, steady(0)]) == 3, "a stream without steps says nothing"
    assert figures.accept_length([steady(0)]) is None


def test_repeats_give_the_median_and_the_spread() -> None:
    found = figures.of_repeats([{"tok_s": v, "accept_length": None} for v in (90.0, 110.0, 100.0)])
    assert found["tok_s"] == {"median": 100, "min": 90, "max": 110, "spread": 0.2}
    assert found["accept_length"]["median"] is None


def test_an_slo_is_written_in_milliseconds() -> None:
    assert slo.parse("ttft=500,itl=40") == Slo(ttft=0.5, tpot=0.04)
    assert not slo.parse("").asked
    for wrong in ("ttft", "ttft=x", "ttft=-1", "ttft=nan", "speed=3"):
        with pytest.raises(UsageError):
            slo.parse(wrong)


def test_bars_are_relative_to_the_highest() -> None:
    assert plot.bars([0, 1, 4, 8]) == " ▁▄█"
    assert plot.bars([1, 100]) == "▁█", "little is not nothing"
    assert plot.bars([0, 0]) == "  "


seconds = st.integers(0, 1000).map(lambda n: n / 8)
streams = st.lists(
    st.builds(
        lambda began, gaps, news: Stream(
            began,
            began + sum(gaps),
            tuple(Part(began + sum(gaps[: n + 1]), sum(news[: n + 1])) for n in range(min(len(gaps), len(news)))),
        ),
        seconds,
        st.lists(st.integers(1, 80).map(lambda n: n / 8), min_size=1, max_size=6),
        st.lists(st.integers(1, 9), min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=8,
)


@given(streams, st.integers(1, 9))
def test_every_token_is_in_exactly_one_bin_and_windows_lie_in_the_run(made: list[Stream], bins: int) -> None:
    begin, end = min(s.began for s in made), max(s.ended for s in made)
    total = sum(s.tokens for s in made)
    assert sum(figures.over_time(made, bins)) * (end - begin) / bins == pytest.approx(total)
    for concurrency in (1, len(made), None):
        start, stop = figures.window(made, concurrency)
        assert begin <= start < stop <= end
        assert 0 <= figures.tokens_between(made, start, stop) <= total


@given(streams)
def test_gaps_between_tokens_add_up_to_the_stream(made: list[Stream]) -> None:
    for stream in made:
        gaps = figures.inter_token(stream)
        assert len(gaps) == stream.tokens - stream.parts[0].tokens
        assert sum(gaps) == pytest.approx(stream.parts[-1].at - stream.parts[0].at)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100))
def test_a_percentile_lies_between_the_values(values: list[float], percent: float) -> None:
    found = figures.percentile(values, percent)
    assert min(values) <= found <= max(values) * (1 + 1e-12)
    assert figures.percentile(values, 0) == min(values)
    assert figures.percentile(values, 100) == max(values)
