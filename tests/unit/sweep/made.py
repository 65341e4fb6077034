"""Cells, results and studies for the tests of the sweep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ddops.sweep import study
from ddops.sweep.cells import Cell
from ddops.sweep.result import Result
from ddops.sweep.study import Study

FAULT: dict[str, Any] = {
    "rule": "illegal-memory-access",
    "line": "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    "why": "a kernel read or wrote outside its buffers",
    "unit": "kimi-0005.service",
    "pid": 4711,
}


def cell(budget: int, *, graphs: bool = True, algorithm: str = "DDTREE", max_running: int = 64) -> Cell:
    return Cell(budget, graphs, algorithm, max_running)


def good(of: Cell, tok_s: float | None, accept: float | None, **at: float) -> Result:
    """A cell measured at one stream, and at more: c4=700.0."""
    rates = {1: tok_s} | {int(name[1:]): rate for name, rate in at.items()}
    measured = tuple(
        {
            "concurrency": c, "tok_s": rate, "tok_s_runs": [rate and rate * 0.99, rate, rate and rate * 1.01],
            "stream_tok_s": rate and rate / c, "ttft_ms": 80.0, "accept_length": accept, "failed": 0, "errors": [],
        }
        for c, rate in rates.items()
    )  # fmt: skip
    return Result(of, "good", measured=measured, seconds=100.0, operation=3, release=2)


def bad(of: Cell, step: str = "load") -> Result:
    return Result(
        of, "bad", "fault in the engine: illegal-memory-access", "a kernel read or wrote outside its buffers",
        step=step, faults=(FAULT,), lines=("Capture cuda graph begin", FAULT["line"]), seconds=40.0, operation=5,
        release=5,
    )  # fmt: skip


def head(*cells: Cell, concurrency: tuple[int, ...] = (1,), **more: Any) -> dict[str, Any]:
    measure = {"concurrency": list(concurrency), "requests": 16, "tokens": 128, "repeats": 3}
    question = {"bisect": False, "cells": [c.as_json() for c in cells], "measure": measure, "drill": None}
    return {
        "host": "gpu-1", "hostname": "gpu-1", "service": "kimi", "profile": "b300", "profile_sha256": "p",
        "stack": {"sglang": "0.5.16", "environment": "e", "model": "m"}, "overlay": "o",
        "known_good": {"release": 1}, "base": cell(8).as_json(), "by": "a@b", "question": question, **more,
    }  # fmt: skip


@contextmanager
def written(path: Path, *results: Result, why: str = "done", **more: Any) -> Iterator[Study]:
    """A study with these results in it."""
    with study.writing(path, head(*[r.cell for r in results], **more)) as of:
        for result in results:
            of.write("ended", result=result.as_json())
        if why:
            of.write("stopped", why=why, code=0)
        yield of
