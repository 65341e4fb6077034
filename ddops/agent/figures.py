"""The arithmetic of a bench, the operator's and the host's own: streams in, figures out.

Times are seconds in, milliseconds in what is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .gates.acceptance import middle
from .stream import Stream

PERCENTILES = (50, 90, 99)
Value = TypeVar("Value")


@dataclass(frozen=True)
class Slo:
    """What a good answer keeps, in seconds; None: not asked for."""

    ttft: float | None = None
    tpot: float | None = None
    latency: float | None = None

    def met(self, stream: Stream) -> bool:
        """Whether a request kept all of it; one that failed or brought no token never does."""
        if not stream.good or not stream.parts:
            return False
        pairs = ((self.ttft, stream.ttft), (self.tpot, stream.tpot or 0.0), (self.latency, stream.latency))
        return all(limit is None or value <= limit for limit, value in pairs)

    @property
    def asked(self) -> bool:
        return any(limit is not None for limit in (self.ttft, self.tpot, self.latency))


def percentile(values: Sequence[float], percent: float) -> float:
    """Returns a percentile, linear between the two nearest values; ``values`` must not be empty."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def inter_token(stream: Stream) -> list[float]:
    """Returns the seconds between tokens: the gap before a part is spread over the tokens that it brought."""
    gaps: list[float] = []
    for before, part in _pairs(stream.parts):
        if new := part.tokens - before.tokens:
            gaps += [(part.at - before.at) / new] * new
    return gaps


def _pairs(values: Sequence[Value]) -> Iterator[tuple[Value, Value]]:
    return zip(values, values[1:])


def window(streams: Sequence[Stream], concurrency: int | None) -> tuple[float, float]:
    """Returns the steady part of a run: from when the load is whole until it is no longer.

    Closed loop: from the beginning of the last of the first ``concurrency`` requests to the first end after the last
    request began. Open loop: from the first end to the last beginning. The whole run where there is no such part.
    """
    begins, ends = sorted(s.began for s in streams), sorted(s.ended for s in streams)
    if concurrency is not None:
        start, stop = begins[min(concurrency, len(begins)) - 1], min(e for e in ends if e >= begins[-1])
    else:
        start, stop = ends[0], begins[-1]
    return (start, stop) if stop > start else (begins[0], ends[-1])


def tokens_between(streams: Sequence[Stream], start: float, stop: float) -> int:
    """Counts the tokens that came after ``start`` and not after ``stop``."""
    count = 0
    for stream in streams:
        before = 0
        for part in stream.parts:
            if start < part.at <= stop:
                count += part.tokens - before
            before = part.tokens
    return count


def accept_length(streams: Sequence[Stream]) -> float | None:
    """Returns tokens per verify step from the middle of the streams; None where no step was counted."""
    counted = [middle([p.tokens for p in s.parts], s.steps) for s in streams if s.good and s.steps]
    tokens, steps = sum(t for t, _ in counted), sum(n for _, n in counted)
    return tokens / steps if steps else None


def over_time(streams: Sequence[Stream], bins: int) -> list[float]:
    """Returns the tokens a second of a run in ``bins`` equal parts of its time."""
    begin, end = min(s.began for s in streams), max(s.ended for s in streams)
    width = (end - begin) / bins
    if width <= 0:
        return [0.0] * bins
    edges = [begin + width * n for n in range(bins)] + [end]
    return [tokens_between(streams, a, b) / width for a, b in _pairs(edges)]


def of_run(streams: Sequence[Stream], slo: Slo, concurrency: int | None) -> dict[str, Any]:
    """Returns the figures of one run; what nothing was measured of is None.

    Tokens of failed requests count for nothing; the requests themselves count against goodput and attainment.
    """
    good = [s for s in streams if s.good and s.parts]
    seconds = max(s.ended for s in streams) - min(s.began for s in streams)
    start, stop = window(streams, concurrency)
    met = sum(slo.met(s) for s in streams)
    found: dict[str, Any] = {
        "requests": len(streams),
        "failed": len(streams) - len(good),
        "seconds": seconds,
        "prompt_tokens": sum(s.prompt_tokens for s in good),
        "output_tokens": sum(s.tokens for s in good),
        "tok_s": sum(s.tokens for s in good) / seconds if seconds > 0 else None,
        "steady_seconds": stop - start,
        "steady_tok_s": tokens_between(good, start, stop) / (stop - start) if stop > start else None,
        "stream_tok_s": _median([1 / s.tpot for s in good if s.tpot]),
        "accept_length": accept_length(good),
        "attainment": met / len(streams) if slo.asked else None,
        "goodput": met / seconds if slo.asked and seconds > 0 else None,
    }
    found |= _spread("ttft_ms", [s.ttft for s in good])
    found |= _spread("itl_ms", [gap for s in good for gap in inter_token(s)])
    found |= _spread("tpot_ms", [s.tpot for s in good if s.tpot is not None])
    return found | _spread("latency_ms", [s.latency for s in good])


def _median(values: Sequence[float]) -> float | None:
    return percentile(values, 50) if values else None


def _spread(name: str, seconds: Sequence[float]) -> dict[str, Any]:
    found: dict[str, Any] = {f"{name}_mean": 1000 * sum(seconds) / len(seconds) if seconds else None}
    for percent in PERCENTILES:
        found[f"{name}_p{percent}"] = 1000 * percentile(seconds, percent) if seconds else None
    return found


def of_repeats(runs: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns each figure's median, least and greatest value over the runs, and its spread relative to the median.

    A figure that any run lacks has no median: half a measurement is none.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        if any(v is None for v in values):
            found[name] = {"median": None, "min": None, "max": None, "spread": None}
            continue
        mid = percentile(values, 50)
        spread = (max(values) - min(values)) / mid if mid else None
        found[name] = {"median": mid, "min": min(values), "max": max(values), "spread": spread}
    return found
