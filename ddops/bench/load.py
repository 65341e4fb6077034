"""The load: what is sent and when. All of it follows from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError

# ids that every vocabulary of today has, above the special tokens at its beginning
_IDS = range(1000, 30000)
_TEXTS = (
    "Write a Python function that merges two sorted lists, and explain each line of it.",
    "Explain to a new colleague how a B-tree index makes a query fast, and when it does not.",
    "Write a short story about a lighthouse keeper who finds a letter in a bottle.",
    "List the steps to debug a service that answers slowly every few minutes.",
    "Write an SQL query for the three customers with the most orders in each month, with comments.",
    "Describe the water cycle for a class of ten-year-olds.",
    "Write a C function that reverses a linked list in place, then say how it could fail.",
    "Summarise the arguments for and against remote work in a table, then in prose.",
)


@dataclass(frozen=True)
class Load:
    """What one run sends: ``concurrency`` streams at a time (closed loop), or ``rate`` a second (open loop).

    ``input_tokens`` asks for prompts of random token ids of that length, else ``prompts`` are continued.
    """

    requests: int
    tokens: int
    concurrency: int | None = 1
    rate: float | None = None
    input_tokens: int | None = None
    prompts: tuple[str, ...] = _TEXTS
    warmup: int = 1
    seed: int = 1
    flush: bool = False
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate is None):
            raise UsageError("a load is a concurrency or a rate", "", "--concurrency N, or --rate R")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise UsageError(f"a rate of {self.rate:g} requests a second cannot be", "", "--rate 2.5")
        if self.concurrency is not None and self.requests < self.concurrency:
            raise UsageError(
                f"{self.requests} requests cannot keep {self.concurrency} streams busy", "", "more --requests"
            )
        if self.timeout <= 0:
            raise UsageError("a request in no time cannot be answered", f"--timeout {self.timeout:g}", "--timeout 10m")
        if not self.prompts:
            raise UsageError("no prompts", "the file of prompts is empty")


def bodies(load: Load, count: int, run: int) -> list[dict[str, Any]]:
    """Returns the first ``count`` requests to /generate of a run; runs of one seed differ, so no cache knows them."""
    chance = random.Random(f"{load.seed}/{run}")  # noqa: S311 - a load, no secret
    params = {"max_new_tokens": load.tokens, "temperature": 0, "ignore_eos": True}
    made = []
    for number in range(count):
        prompt: dict[str, Any] = (
            {"input_ids": [chance.choice(_IDS) for _ in range(load.input_tokens)]}
            if load.input_tokens
            else {"text": f"[{chance.randrange(10**6)}] {load.prompts[number % len(load.prompts)]}\n"}
        )
        made.append({**prompt, "sampling_params": params, "stream": True})
    return made


def arrivals(rate: float, count: int, seed: int, run: int) -> list[float]:
    """Returns when each request of an open loop is due, seconds from the first: a Poisson process."""
    chance = random.Random(f"{seed}/{run}/arrivals")  # noqa: S311 - a load, no secret
    due, at = [], 0.0
    for _ in range(count):
        due.append(at)
        at += chance.expovariate(rate)
    return due
