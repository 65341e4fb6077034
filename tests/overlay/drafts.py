"""Random drafter outputs for the tests, and the best tree by brute force."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import torch

SIZES = [
    (1, 7, 4),
    (2, 7, 8),
    (4, 3, 3),
    (8, 7, 8),
    (9, 15, 8),
    (12, 7, 8),
    (16, 7, 8),
    (32, 7, 8),
    (64, 7, 8),
    (64, 15, 16),
]


def log_probabilities(random: Random, bs: int, length: int, width: int, coarse: bool) -> tuple[Any, Any]:
    """Sorted logp [bs, L, K] and ids [bs, L, K]; `coarse` makes many of them equal."""
    generator = torch.Generator().manual_seed(random.randrange(1 << 30))
    logits = torch.randn((bs, length, 4 * width), generator=generator) * random.choice([0.1, 1.0, 4.0])
    if coarse:
        logits = (logits * 2).round() / 2
    logp, ids = torch.log_softmax(logits, -1).sort(dim=-1, descending=True, stable=True)
    return logp[..., :width].contiguous(), ids[..., :width].contiguous()


def best_sum(logp: Any, budget: int, spine: bool) -> float:
    """The largest sum of probabilities of a tree with `budget` nodes over all K^depth prefixes.

    With a spine the chain's prefixes are in it whatever they weigh. Probabilities only shrink along a path, so the
    best others make a tree; their sum is what matters, not which of equals are taken.
    """
    length, width = logp.shape
    forced: list[float] = []
    free: list[float] = []
    for depth in range(1, length + 1):
        for ranks in itertools.product(range(width), repeat=depth):
            # a prefix that needs more than `budget` better ones can never be chosen
            if sum(_product(r + 1 for r in ranks[:j]) for j in range(1, depth + 1)) > budget + length:
                continue
            score = sum(float(logp[d, r]) for d, r in enumerate(ranks))
            (forced if spine and not any(ranks) else free).append(score)
    forced = sorted(forced, reverse=True)[:budget]
    free = sorted(free, reverse=True)[: budget - len(forced)]
    return float(torch.tensor(forced + free, dtype=torch.float64).exp().sum())


def _product(numbers: Any) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def empty_tree(bs: int, budget: int) -> tuple[Any, Any, Any]:
    """tokens, parents, depths, filled with nonsense."""
    shape = (bs, budget + 1)
    return (
        torch.full(shape, -7),
        torch.full(shape, 99, dtype=torch.int32),
        torch.full(shape, 99, dtype=torch.int32),
    )
