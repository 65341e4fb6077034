"""Garbage: answers that no health check sees through. What is looked for has a number, and each number a limit.

Corrupted attention shows as one token again and again (``!!!!``), as loops, as noise, or as an accept length of 1.00,
since a drafter does not agree with garbage.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

from ..engine import Engine
from ..gates.acceptance import mid_stream

_GRAM = 6  # words: a row of so many that comes again is no coincidence
_LONG_WORD = 24  # characters
_CUT = 300


def measures(text: str) -> dict[str, float]:
    """Returns what is measured of an answer.

    ``entropy`` in bits a character; ``run``, the longest row of one character that is no space; ``repeated``, the
    share of rows of six words (of 24 characters, where there are no words) that came before; ``odd``, the share of
    characters that no text has.
    """
    counts = Counter(text)
    entropy = -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())
    words: Sequence[str] = text.split()
    of = _GRAM
    if len(words) * _LONG_WORD < len(text):  # no words at all, or a script that has no spaces
        words, of = text, _LONG_WORD
    grams = [tuple(words[at : at + of]) for at in range(len(words) - of + 1)]
    odd = sum(
        n
        for c, n in counts.items()
        if c == "\ufffd" or (unicodedata.category(c) in ("Cc", "Cn", "Co") and not c.isspace())
    )
    return {
        "characters": len(text),
        "entropy": round(entropy, 3) + 0.0,
        "run": max((sum(1 for _ in same) for c, same in groupby(text) if not c.isspace()), default=0),
        "repeated": round(1 - len(set(grams)) / len(grams), 3) if grams else 0.0,
        "odd": round(odd / len(text), 3) if text else 0.0,
    }


def problems_of(found: dict[str, float], limits: dict[str, Any]) -> list[str]:
    """Returns what is beyond the limits, in words."""
    if not found["characters"]:
        return ["it is empty"]
    told = []
    if found["characters"] < limits["min_characters"]:
        told.append(f"it ends after {found['characters']} characters, at least {limits['min_characters']} are wanted")
    if found["entropy"] < limits["min_entropy"]:
        told.append(f"entropy {found['entropy']:g} bits a character, at least {limits['min_entropy']:g} are wanted")
    if found["run"] > limits["max_run"]:
        told.append(f"one character {found['run']:g} times in a row, {limits['max_run']} are allowed")
    if found["repeated"] > limits["max_repeated"]:
        told.append(f"{found['repeated']:.0%} of it came before, {limits['max_repeated']:.0%} are allowed")
    if found["odd"] > limits["max_odd"]:
        told.append(f"{found['odd']:.1%} of its characters are no text, {limits['max_odd']:.1%} are allowed")
    return told


def garbage(
    engine: Engine, settings: dict[str, Any], timeout: float, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Asks every prompt at once and measures the answers; where the engine speculates, the accept length too.

    ``settings["min_accept_length"]`` is None where it does not speculate.
    """
    prompts = settings["prompts"]

    def answer_to(prompt: str) -> str:
        return engine.chat(prompt, settings["tokens"], timeout, stream=True, more=settings["request"])

    with ThreadPoolExecutor(len(prompts)) as pool:
        answers = list(pool.map(answer_to, prompts))
    tell(f"{len(answers)} answers")
    judged, problems = [], []
    for prompt, answer in zip(prompts, answers):
        found = measures(answer)
        judged.append({"prompt": prompt, **found, "answer": answer[:_CUT]})
        problems += [f"{prompt!r}: {problem}" for problem in problems_of(found, settings)]
    evidence: dict[str, Any] = {"judged": judged, "accept_length": None, "problems": problems}
    if (least := settings["min_accept_length"]) is not None:
        counted = [mid_stream(engine, prompt, settings["tokens"], timeout) for prompt in prompts]
        steps = sum(n for _, n in counted)
        length = round(sum(t for t, _ in counted) / steps, 3) if steps else 0.0
        evidence["accept_length"] = length
        if length < least:
            problems.append(f"accept length {length:.2f} in mid-stream, at least {least:g} is wanted")
    return evidence
