"""What a verified tree leaves behind: the path, the target's KV of it in front, the drafter's KV of it.

Where the target's own tokens are its likeliest, all of this is the end of its captured graph, so the host starts
nothing for it. The graph commits the requests that `limits` names to it and nobody else: rows that pad it, batches
that are sampled and batches with changed logits pass through it untouched, and the same operations commit these
batches behind the pass, as they do where no graph was replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch

from .buffers import Guarded
from .limits import Limits
from .ops.compact_kv import Table, compact_kv
from .ops.path_rows import path_rows
from .ops.walk import Walk, walk
from .rules import require
from .verify import is_likeliest, target_tokens


class Commit:
    def __init__(self, worker: Any, limits: Limits) -> None:
        """Makes all that graphs will hold; to be called before they are captured."""
        self._worker, self._limits = worker, limits
        rows, self._longest = worker.trees.rows, worker.block_size
        walks = Guarded((Walk.words(rows, self._longest),), torch.int64, worker.device)
        self.guarded = {"walks": walks, **limits.guarded}
        self._buffers = worker.kv_buffers()
        self._table = Table.of(self._buffers)
        worker._ensure_draft_block_buffers(rows)
        # at capture no step has written them yet
        worker._draft_block_positions_buf.zero_()
        worker._draft_verify_out_cache_loc_buf.zero_()
        self._projection = _own_projection(worker._fused_kv_helper, rows * self._longest)

    def captured(self) -> Iterator[tuple[str, torch.Tensor]]:
        """What the end of the target's graph holds by address, with names."""
        for name, guarded in self.guarded.items():
            yield name, guarded.tensor
        yield "drafter positions", self._worker._draft_block_positions_buf
        yield "drafter slots", self._worker._draft_verify_out_cache_loc_buf
        if self._projection is not None:
            yield "drafter projection", self._projection._proj_workspace

    def in_graph(self, batch: Any) -> bool:
        """Tells the graph whom to commit, and whether its next replay commits this batch."""
        graphs = self._worker.model_runner.decode_cuda_graph_runner if self._worker.graphs_are_on else None
        wanted = graphs is not None and len(batch.reqs) <= graphs.max_bs and is_likeliest(batch.sampling_info)
        return self._limits.tell_graph(batch.reqs if wanted else [])

    def nobody_in_graph(self) -> None:
        """The next replay commits nobody."""
        self._limits.tell_graph([])

    def capture(self, _runner: Any, out: Any, forward_batch: Any, num_tokens: int) -> None:
        """SGLang calls this behind the target's pass when it captures it, with the graph's own buffers."""
        bs = num_tokens // self._worker.width
        last_lens, stops = self._limits.in_graph(bs)
        path = Walk.over(self._words(bs), bs, self._longest)
        said = out.next_token_logits.argmax(dim=-1)
        with self._own_workspace():
            self._keep(bs, said, out.hidden_states, forward_batch.seq_lens, last_lens, stops, path)

    def replayed(self, bs: int) -> Walk:
        """What the last replay did, in tensors of its own: the next one may run before the host has read them."""
        padded = self._worker.model_runner.decode_cuda_graph_runner.bs
        walked = Walk.over(self._words(padded).clone(), padded, self._longest)
        return Walk(*(part[:bs] for part in walked))

    def after_pass(self, batch: Any, logits_output: Any) -> Walk:
        """The same where the graph did not: sampled, changed, or without a graph."""
        bs, worker = len(batch.reqs), self._worker
        with torch.inference_mode():
            said = target_tokens(logits_output.next_token_logits, batch.sampling_info, worker.width)
            path = Walk.empty(bs, self._longest, said.device)
            limits = self._limits.of(batch.reqs)
            self._keep(bs, said, logits_output.hidden_states, batch.seq_lens, *limits, path)
        return path

    def _words(self, bs: int) -> torch.Tensor:
        return self.guarded["walks"].tensor[: Walk.words(bs, self._longest)]

    def _keep(
        self,
        bs: int,
        said: torch.Tensor,
        hidden: torch.Tensor,
        prefix_lens: torch.Tensor,
        last_lens: torch.Tensor,
        stops: torch.Tensor,
        path: Walk,
    ) -> None:
        worker, tree = self._worker, self._worker.trees.of(bs)
        walk(said.view(bs, worker.width), tree.tokens, tree.parents, prefix_lens, last_lens, stops, path)
        compact_kv(self._buffers, self._table, worker.trees.slots[:bs], path.path, path.lens)
        front = worker._draft_verify_out_cache_loc_buf[:bs]
        worker._append_target_hidden_to_draft_kv_by_loc(
            target_hidden=path_rows(hidden, path.path),
            cache_loc=front.view(-1),
            cache_loc_2d=front,
            positions=worker._draft_block_positions_buf[:bs].view(-1),
            commit_lens=path.lens,
        )

    @contextmanager
    def _own_workspace(self) -> Iterator[None]:
        """The append's workspace is made anew for a longer prompt; a graph must hold one that nobody else has."""
        worker = self._worker
        shared, worker._fused_kv_helper = worker._fused_kv_helper, self._projection
        try:
            yield
            require(worker._fused_kv_helper is self._projection, "drafter-append", "it failed inside the graph")
        finally:
            worker._fused_kv_helper = shared


def _own_projection(shared: Any, tokens: int) -> Any:
    """The same weights with a workspace of its own; None where SGLang projects layer by layer, without one."""
    if shared is None:
        return None
    own = copy(shared)
    own._workspace_capacity = 0
    own._ensure_workspace(tokens, own.flat_kv_weight_t.dtype)
    return own
