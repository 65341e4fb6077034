"""A DDTREE worker as its last part sees it: trees, slots, a KV pool of two layers, and an append to the drafter's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from ddops_overlay.ddtree.buffers import TreeBuffers
from ddops_overlay.ddtree.commit import Commit
from ddops_overlay.ddtree.limits import Limits

BLOCK, WIDTH, HIDDEN, SLOTS, VOCABULARY = 4, 7, 3, 400, 50
EOS = 2


class Projection:
    """SGLang's fused projection: weights, and a workspace that a longer prompt makes anew."""

    def __init__(self) -> None:
        self.flat_kv_weight_t = torch.zeros((HIDDEN, 2))
        self._workspace_capacity = 1000
        self._proj_workspace: Any = torch.zeros((1000, 2))

    def _ensure_workspace(self, tokens: int, dtype: Any) -> None:
        if tokens > self._workspace_capacity:
            self._proj_workspace, self._workspace_capacity = torch.zeros((tokens, 2), dtype=dtype), tokens


class Worker:
    def __init__(self, rows: int = 6, graph: int = 4) -> None:
        self.trees, self.width, self.block_size, self.device = TreeBuffers(rows, WIDTH, "cpu"), WIDTH, BLOCK, "cpu"
        self.graphs_are_on = True
        self.model_runner = SimpleNamespace(decode_cuda_graph_runner=SimpleNamespace(max_bs=graph, bs=graph))
        numbers = torch.arange(SLOTS * HIDDEN, dtype=torch.float32).view(SLOTS, HIDDEN)
        self.pool = [numbers + 0.25, numbers + 0.5]
        self.drafter_pool = torch.zeros((SLOTS, HIDDEN))
        self._fused_kv_helper: Any = Projection()
        self._draft_block_positions_buf: Any = None
        self._draft_verify_out_cache_loc_buf: Any = None
        self.append_fails = False
        self.workspaces: list[Any] = []
        self.commit = Commit(self, Limits({EOS}, rows, "cpu"))

    def _ensure_draft_block_buffers(self, rows: int) -> None:
        self._draft_block_positions_buf = torch.full((rows, BLOCK), 1 << 60)
        self._draft_verify_out_cache_loc_buf = torch.full((rows, BLOCK), 1 << 60)

    def kv_buffers(self) -> list[Any]:
        return self.pool

    def drafter_kv_buffers(self) -> list[Any]:
        return [self.drafter_pool]

    def _append_target_hidden_to_draft_kv_by_loc(
        self, *, target_hidden: Any, cache_loc: Any, cache_loc_2d: Any, positions: Any, commit_lens: Any
    ) -> None:
        if self.append_fails:
            # SGLang goes on layer by layer, and says so in a warning
            self._fused_kv_helper = None
        self.workspaces.append(self._fused_kv_helper)
        assert torch.equal(cache_loc, cache_loc_2d.flatten())
        assert positions.shape == cache_loc.shape
        assert bool((torch.cat([positions, cache_loc]) < 1 << 20).all()), "tables and pools have an end"
        rows = target_hidden.view(*cache_loc_2d.shape, HIDDEN)
        for b, count in enumerate(commit_lens.tolist()):
            self.drafter_pool[cache_loc_2d[b, :count]] = rows[b, :count]


def request(rid: str, new: int | None = None, stops: tuple[int, ...] = (), prompt: int = 10) -> Any:
    params = SimpleNamespace(max_new_tokens=new, ignore_eos=False, stop_token_ids=set(stops))
    return SimpleNamespace(rid=rid, origin_input_ids=[0] * prompt, sampling_params=params)


def sampling(**changes: Any) -> Any:
    """SGLang's sampling of a batch: greedy, nothing changed, unless said."""
    fields = {
        "is_all_greedy": True,
        "has_custom_logit_processor": False,
        "acc_additive_penalties": None,
        "acc_scaling_penalties": None,
        "vocab_mask": None,
        "logit_bias": None,
        "penalizer_orchestrator": SimpleNamespace(is_required=False),
    }
    return SimpleNamespace(**{**fields, **changes})
