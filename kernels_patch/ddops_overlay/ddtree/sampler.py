"""The drafter's hidden rows to trees: the target's head, the likeliest tokens of each position, the tree.

Called at the end of the drafter's captured pass (then everything here is part of its graph), or after an eager one.
It writes the trees in place. With a vocabulary in shards every rank finds its own K, all gather, all build the same.
"""

from __future__ import annotations

from typing import Any

import torch

from .buffers import TreeBuffers
from .ops import top_tokens
from .ops.build_tree import build_tree
from .rules import require


class TreeSampler:
    def __init__(self, lm_head: Any, block: int, topk: int, spine: bool, trees: TreeBuffers, tp_group: Any) -> None:
        """tp_group: None when the vocabulary is whole."""
        require(torch.is_floating_point(lm_head.weight), "head", "the target's head is quantised")
        shard = getattr(lm_head, "shard_indices", None)
        require(tp_group is None or shard is not None, "head", "a head in shards that does not say which")
        self._weight = lm_head.weight
        # tokens added to the vocabulary are never proposed
        self._tokens = int(lm_head.weight.shape[0] if shard is None else shard.num_org_elements)
        self._first = 0 if shard is None else int(shard.org_vocab_start_index)
        self._block, self._topk, self._spine = block, topk, spine
        self._trees, self._tp_group = trees, tp_group

    def __call__(self, hidden: torch.Tensor, input_ids: torch.Tensor) -> None:
        """hidden [bs * block, H]; input_ids [bs * block], each block's first the root."""
        bs = hidden.shape[0] // self._block
        require(bs <= self._trees.rows, "tree-rows", f"{bs} trees, room for {self._trees.rows}")
        rows = hidden.view(bs, self._block, -1)[:, 1:].flatten(0, 1).to(self._weight.dtype)
        part = self._top(torch.matmul(rows, self._weight[: self._tokens].T))
        tree = self._trees.of(bs)
        shape = (bs, self._block - 1, self._topk)
        root = input_ids.view(bs, self._block)[:, 0].contiguous()
        build_tree(part.logp().view(shape), part.ids.view(shape), root, *tree, self._spine)

    def _top(self, logits: torch.Tensor) -> top_tokens.Part:
        part = top_tokens.top_tokens(logits, self._topk, self._first)
        if self._tp_group is None:
            return part
        ranks = self._tp_group.world_size
        gathered = []
        for tensor in part:
            out = torch.empty((ranks, *tensor.shape), dtype=tensor.dtype, device=tensor.device)
            self._tp_group.all_gather_into_tensor(out.flatten(0, 1), tensor.contiguous())
            gathered.append(out)
        return top_tokens.merge(top_tokens.Part(*gathered), self._topk)
