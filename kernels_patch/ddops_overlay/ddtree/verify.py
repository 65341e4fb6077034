"""The target's pass over the N rows of each request, and its own token at every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.layers.sampler import top_k_top_p_min_p_sampling_from_probs_torch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
from sglang.srt.speculative.dflash_info import DFlashVerifyInput
from sglang.srt.speculative.dflash_utils import apply_dflash_verify_logits_adjustments

from .buffers import Tree
from .ops.tree_mask import visible


@dataclass
class DDTreeVerifyInput(DFlashVerifyInput):  # type: ignore[misc]
    tree: Tree | None = None


def verify(worker: Any, batch: Any, draft_input: Any, tree: Tree) -> tuple[Any, bool]:
    """The target's logits [bs * N, V] and hidden rows, and whether a graph was replayed."""
    bs, width = tree.tokens.shape
    positions, slots = worker.trees.positions[:bs], worker.trees.slots[:bs]
    verify_input = DDTreeVerifyInput(
        draft_token=tree.tokens.view(-1),
        positions=positions.view(-1),
        draft_token_num=width,
        custom_mask=_host_mask(tree, worker.block_size - 1),
        capture_hidden_mode=CaptureHiddenMode.FULL,
        tree=tree,
    )
    batch.out_cache_loc = slots.view(-1)
    lens, total = batch.seq_lens_cpu, batch.seq_lens_sum
    # what plans on the host must see at least what the rows reach
    if lens is not None:
        batch.seq_lens_cpu = lens + width
        batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
    elif draft_input.reserved_seq_lens_cpu is not None:
        batch.seq_lens_cpu = draft_input.reserved_seq_lens_cpu
        batch.seq_lens_sum = int(draft_input.reserved_seq_lens_sum)
    forward_batch, _ = verify_input.prepare_for_verify(batch, worker.target_worker)
    batch.seq_lens_cpu, batch.seq_lens_sum = lens, total
    out = worker.target_worker.forward_batch_generation(
        batch=None, forward_batch=forward_batch, is_verify=True, skip_attn_backend_init=True
    )
    return out.logits_output, out.can_run_cuda_graph


def _host_mask(tree: Tree, depth: int) -> torch.Tensor | None:
    """The Triton back-end writes its own mask; the CPU's takes the trees' bits."""
    return None if tree.parents.is_cuda else visible(tree.parents, depth).flatten()


def is_likeliest(sampling: Any) -> bool:
    """Whether what the target says is the likeliest token of its logits as they are (`target_tokens`)."""
    if sampling is None:
        return True
    penalizer = sampling.penalizer_orchestrator
    changes = (
        sampling.acc_additive_penalties,
        sampling.acc_scaling_penalties,
        sampling.vocab_mask,
        sampling.logit_bias,
    )
    changed = sampling.has_custom_logit_processor or any(change is not None for change in changes)
    return bool(sampling.is_all_greedy and not changed and not (penalizer is not None and penalizer.is_required))


def target_tokens(logits: torch.Tensor, sampling: Any, width: int) -> torch.Tensor:
    """[bs * N] int64: what the target itself says at every row.

    Temperature 0: the likeliest. Above: a sample of the target's own distribution, which the walk follows where the
    tree holds it, so what is emitted is distributed as without speculation.
    """
    if sampling is None:
        return logits.argmax(dim=-1)
    apply_dflash_verify_logits_adjustments(next_token_logits=logits, sampling_info=sampling, draft_token_num=width)
    if sampling.is_all_greedy:
        return logits.argmax(dim=-1)

    def each(values: Any) -> Any:
        return None if values is None else values.repeat_interleave(width, dim=0)

    probabilities = torch.softmax(logits.float() / each(sampling.temperatures), dim=-1)
    return (
        top_k_top_p_min_p_sampling_from_probs_torch(
            probabilities,
            each(sampling.top_ks),
            each(sampling.top_ps),
            each(sampling.min_ps),
            sampling.need_min_p_sampling,
            # seeds are of SGLang's deterministic mode, which is refused
            None,
            None,
        )
        .view(-1)
        .long()
    )
