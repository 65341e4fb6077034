"""Acceptance: how many tokens a verify step yields, mid-stream, like passes compared with known-good.

The accept length of a pass is tokens over verify steps (SGLang's own definition: the bonus token
counts), taken between the first and the last part of each stream, where drafts are cut short. Pass 1
follows a flush of the cache; pass 2 repeats the prompts, which a drafter that remembers answers better.
"""

from __future__ import annotations

import time
from typing import Any

from ..engine import Engine
from ..errors import GateFailed

_EDGE = 8  # tokens at either end of a stream that do not count
PASSES = ("cold", "warm")
_QUIET_S = 5.0


def measure(engine: Engine, settings: dict[str, Any], timeout: float) -> dict[str, float]:
    """Returns the accept length of each pass at concurrency 1.

    The cold pass is left out where users keep the engine so busy that its cache cannot be flushed.
    Raises GateFailed where no verify step is counted.
    """
    found: dict[str, float] = {}
    flushed = flush(engine)
    for name in PASSES:
        counted = [mid_stream(engine, prompt, settings["tokens"], timeout) for prompt in settings["prompts"]]
        tokens, steps = sum(t for t, _ in counted), sum(s for _, s in counted)
        if steps <= 0:
            raise GateFailed("no verify step was counted in mid-stream", f"the {name} pass")
        if name == "warm" or flushed:
            found[name] = round(tokens / steps, 3)
    return found


def flush(engine: Engine) -> bool:
    """Flushes the cache within a few seconds; returns False where requests run all the time."""
    end = time.monotonic() + _QUIET_S
    while True:
        try:
            engine.flush_cache(_QUIET_S)
        except GateFailed:
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        else:
            return True


def mid_stream(engine: Engine, prompt: str, tokens: int, timeout: float) -> tuple[int, float]:
    """Returns the tokens and the verify steps of the middle of one stream.

    At concurrency 1 each part of a stream is one verify step, but for the first, which is the prefill's;
    SGLang tells the number of steps with the last part. Where parts were joined on their way, the steps
    are spread over them evenly.
    """
    body = {"text": prompt, "sampling_params": {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}}
    metas = [event["meta_info"] for event in engine.stream("/generate", body, timeout)]
    if not metas or "spec_verify_ct" not in metas[-1]:
        raise GateFailed("the engine does not speculate although it was asked to", "its streams count no verify steps")
    parts = [int(meta["completion_tokens"]) for meta in metas]
    return middle(parts, int(metas[-1]["spec_verify_ct"]))


def middle(parts: list[int], steps: int) -> tuple[int, float]:
    """Returns the tokens and the verify steps of the middle of a stream.

    ``parts`` are the tokens up to each part, ``steps`` the verify steps of the whole stream, which are spread evenly
    over the parts after the first.
    """
    if not parts:
        return 0, 0.0
    inner = [at for at in parts if _EDGE <= at <= parts[-1] - _EDGE]
    if len(inner) < 2:
        return 0, 0.0
    return inner[-1] - inner[0], (len(inner) - 1) * steps / max(1, len(parts) - 1)


def acceptance(
    engine: Engine, known_good: dict[str, float] | None, settings: dict[str, Any], timeout: float
) -> dict[str, Any]:
    """Compares each pass with known-good's, or with ``min_accept_length`` where known-good does not speculate."""
    found = measure(engine, settings, timeout)
    evidence: dict[str, Any] = {"accept_length": found, "known_good": known_good}
    if "cold" not in found:
        raise GateFailed("the engine was never quiet", "somebody else sends requests to a trial", evidence=evidence)
    for name in PASSES:
        floor = settings["min_accept_length"]
        if known_good and name in known_good:
            floor = max(floor, known_good[name] * (1 - settings["tolerance"]))
        if found[name] < floor:
            raise GateFailed(
                f"the accept length collapsed: {found[name]:.2f} in the {name} pass",
                f"at least {floor:.2f} was expected"
                + (f", known-good has {known_good[name]:.2f}" if known_good and name in known_good else ""),
                evidence=evidence,
            )
    return evidence
