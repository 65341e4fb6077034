"""What a drafter is trained on: the target's own next tokens at every place of many blocks in each text."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def roots_of(starts: torch.Tensor, lengths: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Returns ``count`` random root positions of each text, [b, count] int64, so that a next token is known.

    starts [b] int64: the first position that the target itself wrote, less one; lengths [b] int64, at least starts + 2.
    """
    room = (lengths - 1 - starts).float()[:, None]
    chosen = torch.rand((len(starts), count), generator=generator).to(starts.device)
    return starts[:, None] + (chosen * room).long()


def wanted(ids: torch.Tensor, roots: torch.Tensor, lengths: torch.Tensor, depth: int) -> torch.Tensor:
    """Returns the tokens that follow each root, [b, A, depth] int64; -100 behind the end of the text."""
    places = roots[..., None] + torch.arange(1, depth + 1, device=ids.device)
    tokens = ids.gather(1, places.clamp(max=ids.shape[1] - 1).flatten(1)).view_as(places)
    return tokens.masked_fill(places >= lengths[:, None, None], -100)


def loss(logits: torch.Tensor, tokens: torch.Tensor, gamma: float) -> torch.Tensor:
    """Returns the mean cross entropy, in nats, weighted exp(-(k - 1) / gamma) at place k = 1, 2, ...: a proposal
    counts only where all before it were right.

    logits [n, depth, V], tokens [n, depth] int64 with -100 for none. Source: arXiv 2602.06036, section 4.
    """
    depth = tokens.shape[1]
    each = F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten(), ignore_index=-100, reduction="none")
    weights = torch.exp(-torch.arange(depth, device=tokens.device, dtype=torch.float32) / gamma)
    weights = weights.expand_as(tokens) * (tokens != -100)
    return (each.view_as(weights) * weights).sum() / weights.sum().clamp(min=1e-6)
