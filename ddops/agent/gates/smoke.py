"""Smoke: several prompts, streamed and not, at a concurrency that goes up and down; answers must be right."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..engine import Engine
from ..errors import GateFailed, NoAnswer


def ask(engine: Engine, question: dict[str, Any], tokens: int, timeout: float, *, stream: bool) -> str:
    """Asks one question and returns the answer; raises GateFailed for a wrong one."""
    answer = engine.chat(question["prompt"], tokens, timeout, stream=stream, more=question.get("request"))
    if not re.search(question["expect"], answer):
        raise GateFailed(
            f"a wrong answer to {question['prompt']!r}",
            f"{answer[:200]!r} does not match {question['expect']!r}",
            evidence={"prompt": question["prompt"], "answer": answer[:400], "expect": question["expect"]},
        )
    return answer


def raise_worst(asked: Sequence[Future[Any]]) -> None:
    """Raises what went wrong in questions that were asked at once: a wrong answer rather than one that did not come."""
    errors = [error for job in asked if (error := job.exception())]
    for error in [error for error in errors if not isinstance(error, NoAnswer)] or errors:
        raise error


def smoke(engine: Engine, settings: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Runs the ramp of ``settings``: questions, concurrency (a list, in order), max_tokens."""
    questions = itertools.cycle(settings["questions"])
    streamed = itertools.cycle([False, True])
    asked = 0
    results = [""]
    for width in settings["concurrency"]:
        batch = [(next(questions), next(streamed)) for _ in range(max(width, len(settings["questions"])))]
        with ThreadPoolExecutor(width) as pool:
            answers = [
                pool.submit(ask, engine, question, settings["max_tokens"], timeout, stream=stream)
                for question, stream in batch
            ]
        raise_worst(answers)
        results = [a.result() for a in answers]
        asked += len(batch)
    return {"asked": asked, "concurrency": settings["concurrency"], "sample": results[0][:200]}
