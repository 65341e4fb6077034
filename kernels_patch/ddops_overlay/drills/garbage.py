"""Drill: every check of the process stays green, and the tokens are wrong.

The logits of a forward pass are rolled by one along the vocabulary, so token t is answered as t + 1. The text is
nonsense; with speculation the drafts, learned from such text, are no longer met and the accept length falls to 1.

A step is one decode or verification pass. after_steps 0: from the first pass, prefill included.
"""

from __future__ import annotations

from typing import Any

from ..hooks import Hook

TARGET = "sglang.srt.model_executor.model_runner.ModelRunner.forward"


def hook(after_steps: int) -> Hook:
    steps = 0

    def garbage(output: Any, _runner: Any, forward_batch: Any, *_args: Any, **_kwargs: Any) -> None:
        nonlocal steps
        mode = forward_batch.forward_mode
        if mode.is_decode() or mode.is_target_verify():
            steps += 1
        logits = output.logits_output.next_token_logits
        if logits is not None and (after_steps == 0 or steps > after_steps):
            output.logits_output.next_token_logits = logits.roll(1, dims=-1)

    return Hook(TARGET, "after", garbage)
