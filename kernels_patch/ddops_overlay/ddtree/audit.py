"""The rules that a step must keep. Without `audit` only what costs nothing is checked: no silent eager fallback.

With `audit` every step is checked before its result is used, at the price of a wait for the GPU: addresses of what
graphs hold, widths, the mask in the captured buffer against the trees, self bits, guard bands, ranges of every index.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .ops.tree_mask import visible
from .ops.walk import Walk
from .rules import require


class Audit:
    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self.replays = 0
        self.eager = 0
        self._addresses = dict(self._captured())

    @property
    def _graphs(self) -> Any:
        """The target's graph runner; None where graphs are off, or for one pass of the test at start-up."""
        return self._worker.model_runner.decode_cuda_graph_runner if self._worker.graphs_are_on else None

    def _captured(self) -> Iterator[tuple[str, int]]:
        """Name and address of all that the target's graphs read or write and the overlay relies on."""
        for name, guarded in self._worker.trees.guarded.items():
            yield name, guarded.tensor.data_ptr()
        if self._graphs is None:
            return
        for name, tensor in self._worker.commit.captured():
            yield name, tensor.data_ptr()
        backend = self._worker.model_runner.attn_backend
        for name in ("cuda_graph_custom_mask", "cuda_graph_kv_indices", "mask_indptr", "qo_indptr", "kv_indptr"):
            yield name, getattr(backend, name).data_ptr()
        for name in ("input_ids", "positions", "out_cache_loc", "seq_lens", "req_pool_indices"):
            yield f"graph {name}", getattr(self._graphs.buffers, name).data_ptr()

    def after_verify(self, bs: int, prefix_lens: torch.Tensor, replayed: bool) -> None:
        self.replays += replayed
        self.eager += not replayed
        if self._graphs is not None and bs <= self._graphs.max_bs:
            require(replayed, "graph-replayed", f"a batch of {bs} ran without its graph")
        if self._worker.settings.audit:
            self._check_addresses_and_widths()
            self._check_trees(bs, prefix_lens)
            if replayed:
                self._check_mask(bs, prefix_lens)
            self.check_guards()

    def _check_addresses_and_widths(self) -> None:
        for name, address in self._captured():
            require(address == self._addresses[name], "address", f"{name} moved since the graphs were captured")
        if self._graphs is not None:
            backend = self._worker.model_runner.attn_backend
            widths = {self._graphs.captured_req_width, backend.num_draft_tokens, self._worker.width}
            require(len(widths) == 1, "width", f"runner, back-end and worker verify {sorted(widths)} rows")

    def _check_trees(self, bs: int, prefix_lens: torch.Tensor) -> None:
        worker, tree = self._worker, self._worker.trees.of(bs)
        row = torch.arange(worker.width, device=tree.parents.device)
        parents = tree.parents[:, 1:]
        require(bool((tree.parents[:, 0] == -1).all()), "tree-root", "row 0 has a parent")
        require(bool(((parents >= 0) & (parents < row[1:])).all()), "tree-order", "a parent behind its child")
        above = tree.depths.gather(1, parents.long())
        require(bool((tree.depths[:, 1:] == above + 1).all()), "tree-depth", "a depth that is not its parent's + 1")
        require(int(tree.depths.max()) < worker.block_size, "tree-depth", "deeper than the drafter's block")
        vocabulary = worker.model_runner.model_config.vocab_size
        require(_within(tree.tokens, vocabulary), "tree-token", "a token outside the vocabulary")
        positions = prefix_lens[:, None] + tree.depths
        require(torch.equal(worker.trees.positions[:bs], positions), "position", "not prefix + depth")
        table = worker.model_runner.req_to_token_pool.req_to_token
        reach = int(prefix_lens.max()) + worker.width
        require(reach <= table.shape[1], "request-row", f"rows reach column {reach} of {table.shape[1]}")
        slots, pool = worker.trees.slots[:bs], worker.model_runner.token_to_kv_pool
        require(_within(slots, pool.size + pool.page_size), "slot", "a KV slot outside the pool")
        require(slots.unique().numel() == slots.numel(), "slot", "two rows of the batch share a KV slot")

    def _check_mask(self, bs: int, prefix_lens: torch.Tensor) -> None:
        worker, backend = self._worker, self._worker.model_runner.attn_backend
        width = worker.width
        trees = visible(worker.trees.of(bs).parents, worker.block_size - 1)
        ends = (width * (prefix_lens + width)).cumsum(0)
        require(torch.equal(backend.mask_indptr[1 : bs + 1], ends), "mask-offset", "not the sum of N * (prefix + N)")
        for b in range(bs):
            start, prefix = int(backend.mask_indptr[b]), int(prefix_lens[b])
            block = backend.cuda_graph_custom_mask[start : start + width * (prefix + width)].view(width, -1)
            found = block[:, prefix:].bool()
            require(bool(found.diagonal().all()), "self-bit", f"a row of request {b} does not see itself")
            require(torch.equal(found, trees[b]), "mask", f"the captured mask of request {b} is not its tree's")

    def check_guards(self) -> None:
        backend = self._worker.model_runner.attn_backend
        guarded = dict(self._worker.trees.guarded)
        if self._graphs is not None:
            guarded["mask"] = backend.guarded_mask
            guarded |= self._worker.commit.guarded
        for name, buffer in guarded.items():
            require(buffer.intact(), "guard-band", f"something wrote past the ends of {name}")

    def after_walk(self, walk: Walk) -> None:
        if not self._worker.settings.audit:
            return
        worker, bs = self._worker, walk.lens.shape[0]
        require(bool(((walk.lens >= 1) & (walk.lens <= worker.block_size)).all()), "path-length", "not 1 to the block")
        require(
            _within(walk.bonus, worker.model_runner.model_config.vocab_size), "path-token", "outside the vocabulary"
        )
        node = walk.path - worker.width * torch.arange(bs, device=walk.path.device)[:, None]
        require(_within(node, worker.width), "path-row", "a path leaves its request's rows")
        kept = torch.arange(walk.path.shape[1], device=node.device) < walk.lens[:, None]
        ahead = node >= torch.arange(node.shape[1], device=node.device)
        require(bool((ahead | ~kept).all()), "path-order", "a row would be overwritten before it is read")


def _within(values: torch.Tensor, end: int) -> bool:
    return bool(((values >= 0) & (values < end)).all())
