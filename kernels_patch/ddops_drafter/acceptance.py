"""How many tokens a step emits, without an engine: texts that the target wrote greedily, drafted at every position.

Such a text is what verification follows, so walking it step by step counts what an engine would accept: a step emits
the proposals that are right and the target's own next token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from ddops_overlay.ddtree.ops.build_tree import reference as build_tree


@dataclass
class Count:
    """Tokens that were emitted, and the verify steps that it took."""

    tokens: int = 0
    steps: int = 0

    @property
    def length(self) -> float:
        """Tokens a step: the accept length, the bonus token counted."""
        return self.tokens / self.steps if self.steps else 0.0


def walk(right: list[int], count: Count) -> None:
    """Adds one text: ``right[t]`` proposals are right when token t of it is the root."""
    at = 0
    while at < len(right) - 1:
        emitted = min(right[at] + 1, len(right) - 1 - at)
        count.tokens += emitted
        count.steps += 1
        at += emitted


def right_in_chain(proposed: torch.Tensor, tokens: torch.Tensor) -> list[int]:
    """Returns how many of each root's proposals are right from the first on.

    proposed [n, depth] int64, the likeliest tokens; tokens [n, depth] int64, what follows, -100 for none.
    """
    same = (proposed == tokens).long().cumprod(dim=1).sum(dim=1)
    return [int(n) for n in same]


def right_in_tree(
    logp: torch.Tensor, ids: torch.Tensor, tokens: torch.Tensor, budget: int, *, spine: bool = True
) -> list[int]:
    """Returns the depth to which each root's tree of ``budget`` nodes holds what follows.

    logp [n, depth, K] float32 sorted along K, ids [n, depth, K] int64, tokens [n, depth] int64 with -100 for none.
    """
    n = len(logp)
    nodes = torch.zeros((n, budget + 1), dtype=torch.int64)
    parents, depths = torch.zeros((n, budget + 1), dtype=torch.int32), torch.zeros((n, budget + 1), dtype=torch.int32)
    build_tree(logp.cpu(), ids.cpu(), torch.zeros(n, dtype=torch.int64), nodes, parents, depths, spine)
    return [_follow(nodes[i].tolist(), parents[i].tolist(), tokens[i].tolist()) for i in range(n)]


def _follow(nodes: list[int], parents: list[int], text: list[int]) -> int:
    at = depth = 0
    children = {(parent, token): n for n, (parent, token) in enumerate(zip(parents, nodes, strict=True)) if n}
    while depth < len(text) and (child := children.get((at, text[depth]))) is not None:
        at, depth = child, depth + 1
    return depth
