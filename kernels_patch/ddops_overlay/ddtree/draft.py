"""The drafter's pass: a block of the root and masks behind each request's prefix, bidirectional, in one forward.

This is DFLASH's own first half with the same buffers and the same slots; only what is made of the result differs.
The block's KV is thrown away by being overwritten: the accepted rows are written there later. The trees and where
their rows stand are made at the end of the drafter's graph where there is one.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.kernels.ops.speculative.dflash import _prepare_dflash_draft_block_unchecked
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode

from .ops import verify_rows as rows


def draft(worker: Any, batch: Any, draft_input: Any) -> None:
    """Leaves the trees of the batch, and where their rows stand, in the worker's buffers."""
    bs, block = len(batch.seq_lens), worker.block_size
    worker._ensure_draft_block_buffers(bs)
    ids = worker._draft_block_ids_buf[:bs]
    positions = worker._draft_block_positions_buf[:bs]
    slots = worker._draft_verify_out_cache_loc_buf[:bs]
    _prepare(worker, batch, draft_input.bonus_tokens, ids, positions, slots)
    seq_lens, host_lens = _lengths(worker, batch, draft_input, slots, bs)
    embeddings = worker.target_worker.model_runner.model.get_input_embeddings()(ids)
    forward_batch = ForwardBatch(
        forward_mode=ForwardMode.TARGET_VERIFY,
        batch_size=bs,
        input_ids=ids.flatten(),
        req_pool_indices=batch.req_pool_indices,
        seq_lens=seq_lens,
        out_cache_loc=slots.flatten(),
        seq_lens_sum=int(host_lens.sum()),
        seq_lens_cpu=host_lens,
        positions=positions.flatten(),
        input_embeds=embeddings.view(bs * block, -1),
        spec_algorithm=worker.draft_model_runner.spec_algorithm,
        spec_info=worker._draft_block_spec_info,
        capture_hidden_mode=CaptureHiddenMode.NULL,
    )
    with torch.inference_mode():
        out = worker.draft_model_runner.forward(forward_batch)
        if not (out.can_run_graph and worker.plants_in_graph):
            plant(worker, out.logits_output.hidden_states, ids, positions, batch.req_pool_indices)


def plant_from_graph(worker: Any, _runner: Any, out: Any, forward_batch: Any, num_tokens: int) -> None:
    """SGLang calls this behind the drafter's pass when it captures it, with the graph's own buffers."""
    shape = (num_tokens // worker.block_size, worker.block_size)
    ids, positions = forward_batch.input_ids.view(shape), forward_batch.positions.view(shape)
    plant(worker, out.hidden_states, ids, positions, forward_batch.req_pool_indices)


def plant(worker: Any, hidden: torch.Tensor, ids: torch.Tensor, positions: torch.Tensor, req: torch.Tensor) -> None:
    """hidden [bs * block, H]; ids and positions [bs, block], each block's first the root's; req [bs]."""
    bs = len(req)
    worker.sampler(hidden, ids)
    rows.verify_rows(
        worker.trees.of(bs).depths,
        positions[:, 0].contiguous(),
        req,
        worker.model_runner.req_to_token_pool.req_to_token,
        worker.trees.positions[:bs],
        worker.trees.slots[:bs],
    )


def _prepare(
    worker: Any, batch: Any, roots: torch.Tensor, ids: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor
) -> None:
    table = worker.model_runner.req_to_token_pool.req_to_token
    if ids.is_cuda:
        _prepare_dflash_draft_block_unchecked(
            bonus_tokens=roots.view(-1),
            prefix_lens=batch.seq_lens.view(-1),
            req_pool_indices=batch.req_pool_indices.view(-1),
            req_to_token=table,
            block_ids_out=ids,
            positions_out=positions,
            cache_loc_out=slots,
            mask_token_id=int(worker._mask_token_id),
        )
        return
    ids.fill_(int(worker._mask_token_id))
    ids[:, 0] = roots
    steps = worker._block_pos_offsets.expand(ids.shape)
    rows.reference(steps, batch.seq_lens, batch.req_pool_indices, table, positions, slots)


def _lengths(
    worker: Any, batch: Any, draft_input: Any, slots: torch.Tensor, bs: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The drafter's prefix lengths, and upper bounds of them on the host for what plans there."""
    host = worker._draft_seq_lens_cpu_buf[:bs]
    if not worker.use_compact_draft_cache:
        known = batch.seq_lens_cpu if batch.seq_lens_cpu is not None else draft_input.reserved_seq_lens_cpu
        host.copy_(known)
        if batch.seq_lens_cpu is not None:
            host.add_(worker.block_size)
        return batch.seq_lens, host
    # a window: the drafter sees the last tokens only, through a table of its own
    window = worker._compute_compact_draft_seq_lens(batch.seq_lens)
    worker._fill_compact_seq_lens_cpu_bound(
        batch_seq_lens_cpu=batch.seq_lens_cpu,
        reserved_seq_lens_cpu=draft_input.reserved_seq_lens_cpu,
        draft_prefix_lens=window,
        out=host,
    )
    worker._rebuild_compact_draft_cache(
        req_pool_indices=batch.req_pool_indices,
        prefix_lens=batch.seq_lens,
        draft_prefix_lens=window,
        verify_out_cache_loc_2d=slots,
        bs=bs,
        block_size=worker.block_size,
    )
    return window, host
