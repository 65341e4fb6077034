"""Drill: every check of the process stays green, and the tokens are wrong.

The logits of pass number p are rolled by p along the vocabulary, so token t is answered as t + p. The text is
nonsense. The shift changes from pass to pass because a constant one is a model too: it repeats itself, drafts
learned from its text are met, and acceptance stays. With a changing one the accept length falls to 1.

A pass that decodes or verifies is a step. after_steps 0: from the first pass of all, prefill included.
"""

from __future__ import annotations

from typing import Any

from ..hooks import Hook

TARGET = "sglang.srt.model_executor.model_runner.ModelRunner.forward"


def hook(after_steps: int) -> Hook:
    passes = steps = 0

    def garbage(output: Any, _runner: Any, forward_batch: Any, *_args: Any, **_kwargs: Any) -> None:
        nonlocal passes, steps
        mode = forward_batch.forward_mode
        passes += 1
        if mode.is_decode() or mode.is_target_verify():
            steps += 1
        logits = output.logits_output.next_token_logits
        if logits is not None and (after_steps == 0 or steps > after_steps):
            # each rank counts the same passes, so all are wrong in the same way
            shift = 1 + passes % (logits.shape[-1] - 1)
            output.logits_output.next_token_logits = logits.roll(shift, dims=-1)

    return Hook(TARGET, "after", garbage)
