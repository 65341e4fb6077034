"""Training a drafter on the target's answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .acceptance import Count, right_in_chain, right_in_tree, walk
from .answers import Text
from .loss import loss, roots_of, wanted
from .model import Drafter


@dataclass(frozen=True)
class Recipe:
    """How a drafter is trained. ``roots`` are blocks of one text in one step; ``gamma`` as in the loss."""

    steps: int = 8000
    batch: int = 64
    roots: int = 96
    rate: float = 1e-3
    warm_up: float = 0.04
    clip: float = 1.0
    gamma: float = 4.0
    seed: int = 1


class Target:
    """What is taken from the target: its embedding, its head, and the outputs of its tapped layers."""

    def __init__(self, model: Any, taps: tuple[int, ...]) -> None:
        self.model, self.taps = model, taps
        self.embedding, self.head = model.get_input_embeddings(), model.get_output_embeddings()
        self.device = next(model.parameters()).device

    @torch.no_grad()
    def tapped(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns [b, L, K H] of texts ids [b, L]; padding at the end is seen by nothing before it."""
        states = self.model.model(ids, output_hidden_states=True, use_cache=False).hidden_states
        return torch.cat([states[tap + 1] for tap in self.taps], dim=-1)


@dataclass
class Batch:
    """Texts of one length: ids [b, L], lengths and starts [b], all int64."""

    ids: torch.Tensor
    lengths: torch.Tensor
    starts: torch.Tensor


def together(texts: list[Text], device: Any) -> Batch:
    """Returns texts padded at their ends, to a multiple of 8 tokens, which attention with a mask is made for."""
    width = -(-max(len(text.ids) for text in texts) // 8) * 8
    return Batch(
        torch.tensor([text.ids + [0] * (width - len(text.ids)) for text in texts], device=device),
        torch.tensor([len(text.ids) for text in texts], device=device),
        torch.tensor([text.start for text in texts], device=device),
    )


def propose(drafter: Drafter, target: Target, batch: Batch, tapped: torch.Tensor, roots: torch.Tensor) -> torch.Tensor:
    """Returns the logits of every proposal, [b, A, depth, V]."""
    ids = torch.full((*roots.shape, drafter.shape.block), drafter.shape.mask_token, device=roots.device)
    ids[..., 0] = batch.ids.gather(1, roots)
    blocks = target.embedding(ids)
    states = drafter(blocks, roots, tapped, batch.lengths)[:, :, 1:]
    logits: torch.Tensor = target.head(states)
    return logits


def rate_at(done: float, recipe: Recipe) -> float:
    """Returns the learning rate when ``done`` of 1 is behind: up in a line, then down a half cosine to a fiftieth."""
    if done < recipe.warm_up:
        return recipe.rate * max(done, 1e-3) / recipe.warm_up
    rest = (done - recipe.warm_up) / (1 - recipe.warm_up)
    return recipe.rate * (0.51 + 0.49 * math.cos(math.pi * min(rest, 1.0)))


def train(
    drafter: Drafter,
    target: Target,
    texts: list[Text],
    recipe: Recipe,
    state: dict[str, Any] | None,
    keep: Callable[[dict[str, Any]], None],
    tell: Callable[[int, float, float], None],
    *,
    until: float = math.inf,
    keep_every: int = 200,
    tell_every: int = 1,
) -> int:
    """Trains in place to the last step, or until the clock says ``until``; returns the steps that are done.

    The learning rate comes down with the steps or with the time, whichever is further. ``state`` is what ``keep`` was
    given last: with it a training goes on as if it had never been left (if time does not end it). ``tell`` hears the
    step, the mean loss in nats since it last did, and the learning rate.
    """
    on_gpu = target.device.type == "cuda"
    optimizer = torch.optim.AdamW(
        drafter.parameters(), lr=recipe.rate, betas=(0.9, 0.95), weight_decay=0.01, fused=on_gpu
    )
    step = 0
    if state:
        drafter.load_state_dict(state["drafter"])
        optimizer.load_state_dict(state["optimizer"])
        step = int(state["step"])

    def stored() -> dict[str, Any]:
        return {"drafter": drafter.state_dict(), "optimizer": optimizer.state_dict(), "step": step}

    began, since = time.monotonic(), []
    while step < recipe.steps and (now := time.monotonic()) < until:
        # each step's choices follow from its number, so that a resumed training makes the same
        generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step)
        chosen = torch.randint(len(texts), (recipe.batch,), generator=generator)
        batch = together([texts[int(n)] for n in chosen], target.device)
        roots = roots_of(batch.starts, batch.lengths, recipe.roots, generator)
        rate = rate_at(max(step / recipe.steps, (now - began) / (until - began)), recipe)
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast(target.device.type, torch.bfloat16, enabled=on_gpu):
            tapped = target.tapped(batch.ids)
            logits = propose(drafter, target, batch, tapped, roots)
            tokens = wanted(batch.ids, roots, batch.lengths, drafter.shape.depth)
            lost = loss(logits.flatten(0, 1), tokens.flatten(0, 1), recipe.gamma)
        optimizer.zero_grad(set_to_none=True)
        lost.backward()
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), recipe.clip)
        optimizer.step()
        step += 1
        since.append(lost.detach())
        if step % tell_every == 0:  # only here the host waits for the GPU
            tell(step, float(torch.stack(since).mean()), rate)
            since.clear()
        if step % keep_every == 0:
            keep(stored())
    keep(stored())
    return step


@torch.no_grad()
def accepted(
    drafter: Drafter, target: Target, texts: list[Text], budgets: tuple[int, ...], topk: int = 8
) -> dict[str, float]:
    """Returns the accept length over texts: of the chain, and of a tree for each budget."""
    counts = {"chain": Count(), **{str(budget): Count() for budget in budgets}}
    for text in texts:
        batch = together([text], target.device)
        roots = torch.arange(text.start, len(text.ids), device=target.device)[None]
        with torch.autocast(target.device.type, torch.bfloat16, enabled=target.device.type == "cuda"):
            logits = propose(drafter, target, batch, target.tapped(batch.ids), roots)[0].float()
        logp, ids = logits.log_softmax(-1).topk(topk, dim=-1)
        tokens = wanted(batch.ids, roots, batch.lengths, drafter.shape.depth)[0]
        walk(right_in_chain(ids[..., 0], tokens), counts["chain"])
        for budget in budgets:
            walk(right_in_tree(logp, ids, tokens, budget), counts[str(budget)])
    return {name: count.length for name, count in counts.items()}
