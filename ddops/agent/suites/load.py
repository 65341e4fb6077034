"""Load: the concurrency goes up and down, lengths are ragged, streams are left in the middle.

Some faults need exactly that: a batch that shrinks, a graph that is padded, memory freed in mid-stream. After each
wave a question has to be answered right.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..engine import Engine
from ..errors import GateFailed
from ..gates.smoke import ask

_PER_STREAM = 3  # streams of a wave for each that runs at a time


def load(
    engine: Engine, settings: dict[str, Any], timeout: float, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Sends the waves of ``settings`` and returns what was sent and every stream that did not end as it must."""
    numbers = itertools.count()
    problems: list[str] = []
    evidence: dict[str, Any] = {"streams": 0, "aborted": 0, "tokens": 0, "waves": [], "problems": problems}
    for width in settings["concurrency"]:
        batch = [next(numbers) for _ in range(width * _PER_STREAM)]
        with ThreadPoolExecutor(width) as pool:
            ended = list(pool.map(lambda n: _stream(engine, n, settings, timeout), batch))
        problems += [f"at {width} at a time: {problem}" for _, _, problem in ended if problem]
        evidence["streams"] += len(batch)
        evidence["aborted"] += sum(aborted for _, aborted, _ in ended)
        evidence["tokens"] += sum(tokens for tokens, _, _ in ended)
        evidence["waves"].append(width)
        try:
            ask(engine, settings["question"], settings["question_tokens"], timeout, stream=False)
        except GateFailed as error:
            problems.append(f"after {width} at a time: {error.what}: {error.why}")
            break  # an engine that answers wrongly is not asked on
        tell(f"{width} at a time: {len(batch)} streams")
    return evidence


def _stream(engine: Engine, number: int, settings: dict[str, Any], timeout: float) -> tuple[int, bool, str]:
    """Sends one stream; returns its tokens, whether it was left on purpose, and what is wrong with it."""
    lengths = settings["tokens"]
    tokens = lengths[(number + number // len(lengths)) % len(lengths)]  # not in step with those that are left
    prompt = settings["prompts"][number % len(settings["prompts"])]
    leave = number % settings["abort_every"] == settings["abort_every"] - 1
    params = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
    body = {"text": " ".join([prompt] * (1 + number % 5)), "sampling_params": params}
    count = 0
    try:
        with contextlib.closing(engine.stream("/generate", body, timeout)) as events:  # type: ignore[type-var]
            for event in events:
                count = int(event["meta_info"]["completion_tokens"])
                if leave and count >= tokens // 2:
                    return count, True, ""
    except GateFailed as error:
        return count, False, f"{error.what}: {error.why}"
    except (KeyError, TypeError) as error:
        return count, False, f"an event without a count of tokens: {error!r}"
    return count, False, "" if count == tokens else f"{count} tokens came, {tokens} were asked for"
