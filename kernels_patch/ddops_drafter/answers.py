"""The target's own greedy answers: what a drafter has to foresee."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .corpus import Prompt


@dataclass(frozen=True)
class Text:
    """A prompt with its answer. ``start``: the index of the last token of the prompt, the first root."""

    ids: list[int]
    start: int
    held_out: bool


def encode(tokenizer: Any, prompt: Prompt) -> list[int]:
    """Returns the token ids of a prompt as a server makes them: with the chat's template, or as it stands."""
    if not prompt.chat:
        return list(tokenizer.encode(prompt.text))
    said = [{"role": "user", "content": prompt.text}]
    text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(text, add_special_tokens=False))


@torch.no_grad()
def answer(
    target: Any, tokenizer: Any, prompts: list[Prompt], tokens: int, batch: int, tell: Callable[[int], None]
) -> Iterator[Text]:
    """Yields each prompt with up to ``tokens`` greedy tokens, ended by its first end-of-text.

    Answers shorter than two tokens are left out. ``tell`` hears how many prompts are done.
    """
    device = next(target.parameters()).device
    encoded = sorted(((encode(tokenizer, p), p) for p in prompts), key=lambda pair: len(pair[0]))
    ends = set(torch.tensor(target.generation_config.eos_token_id).flatten().tolist())
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(ends)
    for first in range(0, len(encoded), batch):
        part = encoded[first : first + batch]
        width = max(len(ids) for ids, _ in part)
        padded = torch.tensor([[pad] * (width - len(ids)) + ids for ids, _ in part], device=device)
        seen = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids, _ in part], device=device)
        out = target.generate(
            padded, attention_mask=seen, max_new_tokens=tokens, do_sample=False, pad_token_id=pad, use_cache=True
        )[:, width:].tolist()
        for (ids, prompt), said in zip(part, out, strict=True):
            end = next((n + 1 for n, token in enumerate(said) if token in ends), len(said))
            if end >= 2:
                yield Text(ids + said[:end], len(ids) - 1, prompt.held_out)
        tell(min(first + batch, len(encoded)))
