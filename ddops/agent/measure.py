"""Measuring a trial that nobody uses, for a sweep: a closed loop at each concurrency, on the host's loopback."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import figures
from .engine import Engine
from .errors import GateFailed
from .sending import send
from .stream import Stream

_TOLD = 3  # errors
_WARM_UP_TOKENS = 8


def measure(
    engine: Engine, asked: dict[str, Any], prompts: list[str], left: Callable[[], float], tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Returns what was measured at each concurrency of ``asked``: medians over its ``repeats``.

    Before its first run each concurrency is met once, unmeasured. A run sends ``requests`` (or one for each stream,
    where that is more) of ``tokens`` each, so many at a time as the concurrency says. ``tok_s`` is that of the steady
    part; milliseconds where a name says so. ``left`` gives the seconds that a request may take, and raises what ends
    the trial. Raises GateFailed where not one was answered.
    """
    found = []
    for concurrency in asked["concurrency"]:
        runs, errors = [], []
        # an engine that meets a batch of this size for the first time compiles for it: not in what is measured
        _run(engine, asked | {"tokens": _WARM_UP_TOKENS, "requests": 1}, prompts, concurrency, "warm-up", left())
        for number in range(asked["repeats"]):
            streams = _run(engine, asked, prompts, concurrency, number, left())
            errors += [s.error for s in streams if s.error]
            if not any(s.good for s in streams):
                raise GateFailed(f"none of {len(streams)} requests was answered", errors[0])
            runs.append(figures.of_run(streams, figures.Slo(), concurrency))
            tell(f"{concurrency} at a time: {runs[-1]['steady_tok_s'] or 0:.1f} tok/s")
        over = {name: values["median"] for name, values in figures.of_repeats(runs).items()}
        found.append(
            {
                "concurrency": concurrency,
                "tok_s": _rounded(over["steady_tok_s"]),
                "tok_s_runs": [_rounded(run["steady_tok_s"]) for run in runs],
                "stream_tok_s": _rounded(over["stream_tok_s"]),
                "ttft_ms": _rounded(over["ttft_ms_p50"]),
                "accept_length": _rounded(over["accept_length"]),
                "failed": sum(run["failed"] for run in runs),
                "errors": errors[:_TOLD],
            }
        )
    return found


def _run(
    engine: Engine, asked: dict[str, Any], prompts: list[str], concurrency: int, number: int | str, timeout: float
) -> list[Stream]:
    # numbered, so that no prefix cache knows a prompt
    texts = [
        f"[{concurrency}.{number}.{n}] {prompts[n % len(prompts)]}" for n in range(max(asked["requests"], concurrency))
    ]
    with ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(lambda text: send(engine, text, asked["tokens"], timeout), texts))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
