"""A bench as people see it: its progress, its figures, its plot."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import output
from .output import data, paint, say

if TYPE_CHECKING:
    from ..bench.load import Load
    from ..bench.measure import Measured, Progress

_WIDTH = 30
_ROWS = (
    ("tok_s", "tok/s", "all streams, the whole run"),
    ("steady_tok_s", "tok/s steady", "while the load is whole"),
    ("stream_tok_s", "tok/s a stream", "median"),
    ("ttft_ms_p50", "first token, ms", "median"),
    ("ttft_ms_p99", "", "99 %"),
    ("itl_ms_p50", "between tokens, ms", "median"),
    ("itl_ms_p99", "", "99 %"),
    ("latency_ms_p50", "whole answer, ms", "median"),
    ("accept_length", "accept length", "tokens a verify step, mid-stream"),
    ("goodput", "goodput, requests/s", "within the SLO"),
    ("attainment", "SLO attained", "of all requests sent"),
)


class Bar:
    """Shows progress on stderr: in place on a terminal, else a line for each run that is done."""

    def __init__(self, requests: int, repeats: int) -> None:
        self.requests, self.repeats = requests, repeats
        self._alive = sys.stderr.isatty()

    def __call__(self, at: Progress) -> None:
        over = at.done == self.requests
        failed = f", {at.failed} failed" if at.failed else ""
        text = f"  run {at.run} of {self.repeats}: {at.done}/{self.requests} requests{failed}"
        if self._alive:
            filled = _WIDTH * at.done // self.requests
            output.draw(f"\r{text}  [{'#' * filled}{'.' * (_WIDTH - filled)}]" + ("\n" if over else ""))
        elif over:
            say(text)


def show(found: Measured, load: Load, url: str) -> None:
    """Prints the median of each figure, its least and greatest value, and tokens a second over time."""
    from ..bench.plot import bars

    shape = f"{load.concurrency} at a time" if load.rate is None else f"{load.rate:g} a second"
    prompts = f"{load.input_tokens} random tokens" if load.input_tokens else "texts"
    data(f"{url}: {len(found.runs)} x {load.requests} requests, {shape}, {prompts} in, {load.tokens} tokens out")
    say(paint(f"  seed {load.seed}", "dim"))
    for key, name, what in _ROWS:
        value = found.figures[key]
        if value["median"] is not None:
            span = f"{value['min']:.4g} to {value['max']:.4g}" if len(found.runs) > 1 else ""
            data(f"  {name:20}{value['median']:>10.4g}  {span:22}  {what}")
    data(f"  tok/s over time     {bars(found.over_time)}  last run, highest {max(found.over_time):.4g}")
    if found.failed:
        data(f"  {paint('failed', 'red', sys.stdout)} {found.failed} of {len(found.runs) * load.requests}")
        for error, count in sorted(found.errors.items(), key=lambda pair: -pair[1])[:3]:
            output.say(f"    {count} x {error}")


def show_gpus(found: dict[str, Any] | None) -> None:
    """Prints what the GPUs did meanwhile; nothing where nobody was asked."""
    if found is None:
        return
    if not found["samples"]:
        say(paint(f"  GPUs: {found['problem'] or 'not asked in time'}", "dim"))
        return
    if found["power_w"] is not None:
        limit = f"of {found['power_limit_w']:.0f}" if found["power_limit_w"] is not None else ""
        what = f"all GPUs, median of {found['samples']} samples"
        data(f"  {'GPU power, W':20}{found['power_w']:>10.4g}  {limit:22}  {what}")
    for key, name in (("busy_percent", "GPU busy, %"), ("memory_percent", "memory busy, %")):
        if found[key] is not None:
            data(f"  {name:20}{found[key]:>10.4g}")
    data(f"  {found['verdict']}")
