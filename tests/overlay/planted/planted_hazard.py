"""Bugs of other ports, planted on purpose in one server: an SGLang plug-in for tests, beside the overlay.

PLANTED_HAZARD names one. EXPECTED says by which rule the audit must name it.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

EXPECTED: dict[str, tuple[str, ...]] = {
    # the graphs are captured without a mask (H-03)
    "no-mask": ("mask-captured",),
    # nobody writes the mask that the graph reads (H-05)
    "stale-mask": ("ancestor-seen", "root-row", "sibling-unseen", "self-bit", "mask"),
    # the tree is verified as a chain (H-03)
    "chain-mask": ("sibling-unseen", "mask"),
    # the root does not see itself
    "blind-root": ("replay-is-eager", "root-row", "ancestor-seen", "self-bit"),
    # the back-end's width is the drafter's block (H-01)
    "narrow-backend": ("width",),
    # a buffer that graphs hold is made anew (H-05)
    "moved-buffer": ("address",),
    "captured-twice": ("made-once",),
    # a kernel writes past the end of a captured buffer (H-06)
    "overrun": ("guard-band",),
    # a batch that has a graph runs without it (H-17)
    "eager-fallback": ("graph-replayed",),
    # a child stands before its parent (H-16)
    "child-first": ("tree-order", "tree-depth"),
    # all rows of a tree have the positions of a chain
    "chain-positions": ("position",),
    # the accepted rows stay where they were (H-08)
    "no-compaction": ("kv-moved",),
    # the graph does not read whom to commit: rows that pad it are somebody's too
    "commits-anybody": ("commit-nobody",),
    # the drafter is not told what was accepted
    "drafter-untold": ("commit-is-eager",),
}


def load() -> None:
    """Entry point of group sglang.srt.plugins."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register("sglang.srt.managers.scheduler.configure_scheduler_process", _plant, HookType.AFTER)


def _plant(*_args: Any, **_kwargs: Any) -> None:
    hazard = os.environ.get("PLANTED_HAZARD")
    if hazard:
        globals()["_" + hazard.replace("-", "_")]()


def _no_mask() -> None:
    dflash_utils: Any = import_module("sglang.srt.speculative.dflash_utils")

    dflash_utils.resolve_dflash_verify_mask_policy = lambda backend: (type(backend).__name__, False)


def _stale_mask() -> None:
    DDTreeTritonAttnBackend: Any = import_module("ddops_overlay.ddtree.attention").DDTreeTritonAttnBackend

    DDTreeTritonAttnBackend.init_forward_metadata_in_graph = lambda _self, _forward_batch: None


def _chain_mask() -> None:
    import torch

    attention: Any = import_module("ddops_overlay.ddtree.attention")

    write = attention.tree_mask

    def chain(parents: Any, *rest: Any) -> None:
        row = torch.arange(parents.shape[1], device=parents.device, dtype=torch.int32)
        # as deep as it is wide, so every earlier row is an ancestor
        write((row - 1).expand(parents.shape).contiguous(), *rest[:-1], parents.shape[1])

    attention.tree_mask = chain


def _blind_root() -> None:
    attention: Any = import_module("ddops_overlay.ddtree.attention")

    write = attention.tree_mask

    def blind(parents: Any, prefix_lens: Any, starts: Any, mask: Any, depth: int) -> None:
        write(parents, prefix_lens, starts, mask, depth)
        mask.index_fill_(0, starts[: parents.shape[0]] + prefix_lens, 0)

    attention.tree_mask = blind


def _narrow_backend() -> None:
    DDTreeTritonAttnBackend: Any = import_module("ddops_overlay.ddtree.attention").DDTreeTritonAttnBackend

    made = DDTreeTritonAttnBackend.__init__

    def narrow(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        self.num_draft_tokens = 8

    DDTreeTritonAttnBackend.__init__ = narrow


def _moved_buffer() -> None:
    audit: Any = import_module("ddops_overlay.ddtree.audit")

    made = audit.Audit.__init__

    def moved(self: Any, worker: Any) -> None:
        made(self, worker)
        backend = worker.model_runner.attn_backend
        backend.cuda_graph_custom_mask = backend.cuda_graph_custom_mask.clone()

    audit.Audit.__init__ = moved


def _captured_twice() -> None:
    DDTreeTritonAttnBackend: Any = import_module("ddops_overlay.ddtree.attention").DDTreeTritonAttnBackend

    made = DDTreeTritonAttnBackend.init_cuda_graph_state

    def twice(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        made(self, *args, **kwargs)

    DDTreeTritonAttnBackend.init_cuda_graph_state = twice


def _overrun() -> None:
    selftest: Any = import_module("ddops_overlay.ddtree.selftest")

    plant = selftest._plant

    def overrun(worker: Any, bs: int, roots: Any) -> None:
        plant(worker, bs, roots)
        tokens = worker.trees.guarded["tokens"].tensor
        # one element behind the last
        tokens.as_strided((1,), (1,), tokens.storage_offset() + tokens.numel()).fill_(7)

    selftest._plant = overrun


def _eager_fallback() -> None:
    DecodeCudaGraphRunner: Any = import_module(
        "sglang.srt.model_executor.runner.decode_cuda_graph_runner"
    ).DecodeCudaGraphRunner

    DecodeCudaGraphRunner.can_run_graph = lambda _self, _forward_batch: False


def _after_draft(change: Any) -> None:
    worker: Any = import_module("ddops_overlay.ddtree.worker")

    drafter = worker.draft

    def draft(self: Any, batch: Any, draft_input: Any) -> None:
        drafter(self, batch, draft_input)
        change(self, len(batch.seq_lens))

    worker.draft = draft


def _child_first() -> None:
    def swap(worker: Any, bs: int) -> None:
        worker.trees.of(bs).parents[:, 1] = 2

    _after_draft(swap)


def _chain_positions() -> None:
    import torch

    def chain(worker: Any, bs: int) -> None:
        positions = worker.trees.positions[:bs]
        positions.copy_(positions[:, :1] + torch.arange(positions.shape[1], device=positions.device))

    _after_draft(chain)


def _no_compaction() -> None:
    commit: Any = import_module("ddops_overlay.ddtree.commit")

    commit.compact_kv = lambda *_: None


def _commits_anybody() -> None:
    Limits: Any = import_module("ddops_overlay.ddtree.limits").Limits

    read = Limits.in_graph

    def anybody(self: Any, bs: int) -> Any:
        last_lens, stops = read(self, bs)
        return last_lens.clone().fill_(1 << 40), stops

    Limits.in_graph = anybody


def _drafter_untold() -> None:
    """Only at the end of the graph, as where a capture leaves a step out."""
    Commit: Any = import_module("ddops_overlay.ddtree.commit").Commit

    capture = Commit.capture

    def untold(self: Any, *args: Any) -> None:
        worker = self._worker
        append = worker._append_target_hidden_to_draft_kv_by_loc
        worker._append_target_hidden_to_draft_kv_by_loc = lambda **_: None
        try:
            capture(self, *args)
        finally:
            worker._append_target_hidden_to_draft_kv_by_loc = append

    Commit.capture = untold
