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
    target: Any, tokenizer: Any, prompts: list[Prompt], tokens: int, batch: int, tell: Callable[[int], None],
    *, lead: int = 0,
) -> Iterator[Text]:  # fmt: skip
    """Yields each prompt with up to ``tokens`` greedy tokens, ended by its first end-of-text.

    With ``lead``, so many tokens are sampled at temperature 1 before: the same prompts lead to other texts, and what is
    greedy begins behind them. Answers shorter than two tokens are left out. ``tell`` hears how many prompts are done.
    """
    device = next(target.parameters()).device
    encoded = sorted(((encode(tokenizer, p), p) for p in prompts), key=lambda pair: len(pair[0]))
    ends = set(torch.tensor(target.generation_config.eos_token_id).flatten().tolist())
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(ends)
    for first in range(0, len(encoded), batch):
        part = encoded[first : first + batch]
        width = max(len(ids) for ids, _ in part)
        asked = torch.tensor([[pad] * (width - len(ids)) + ids for ids, _ in part], device=device)
        seen = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids, _ in part], device=device)
        if lead:
            asked = target.generate(
                asked, attention_mask=seen, min_new_tokens=lead, max_new_tokens=lead, do_sample=True, temperature=1.0,
                top_k=0, top_p=1.0, pad_token_id=pad,
            )  # fmt: skip
            seen = torch.cat((seen, seen.new_ones((len(part), lead))), dim=1)
        out = target.generate(
            asked, attention_mask=seen, max_new_tokens=tokens, do_sample=False, pad_token_id=pad, use_cache=True
        ).tolist()
        for (ids, prompt), whole in zip(part, out, strict=True):
            begun, said = whole[width - len(ids) : width + lead], whole[width + lead :]
            end = next((n + 1 for n, token in enumerate(said) if token in ends), len(said))
            if end >= 2:
                yield Text(begun + said[:end], len(begun) - 1, prompt.held_out)
        tell(min(first + batch, len(encoded)))
