"""Sending one streamed request to an engine, each part timed as it comes."""

from __future__ import annotations

import time
from typing import Any

from .engine import Engine
from .errors import GateFailed
from .stream import Part, Stream


def send(engine: Engine, prompt: str, tokens: int, timeout: float) -> Stream:
    """Asks for ``tokens`` greedy tokens; whatever goes wrong is the stream's error."""
    body = {"text": prompt, "sampling_params": {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}}
    parts: list[Part] = []
    meta: dict[str, Any] = {}
    error = ""
    began = time.perf_counter()
    try:
        for event in engine.stream("/generate", body, timeout):
            at, meta = time.perf_counter(), event["meta_info"]
            count = int(meta["completion_tokens"])
            if count > (parts[-1].tokens if parts else 0):
                parts.append(Part(at, count))
    except GateFailed as failure:
        error = f"{failure.what}: {failure.why}"
    except (KeyError, TypeError, ValueError) as failure:
        error = f"an answer that is none of SGLang's: {failure!r}"
    came = parts[-1].tokens if parts else 0
    if not error and came != tokens:
        error = f"{came} tokens came, {tokens} were asked for"
    steps = meta.get("spec_verify_ct")
    ended = time.perf_counter()
    return Stream(
        began, ended, tuple(parts), int(meta.get("prompt_tokens", 0)), None if steps is None else int(steps), error
    )
