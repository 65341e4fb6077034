"""What DDTREE touches of SGLang, in one place: read by the plug-in, imports nothing heavy.

It subclasses, registers and calls, and hooks one function. Each of these is pinned by its source.
"""

from __future__ import annotations

from ..hooks import Hook
from ..settings import DDTree

DRAFTER_FORWARD = "sglang.srt.models.dflash.DFlashDraftModel.forward"

_SPECULATIVE = "sglang.srt.speculative"

BASES = [
    "sglang.kernels.ops.attention.extend_attention._fwd_kernel",
    "sglang.kernels.ops.attention.extend_attention._get_block_sizes_for_extend_attention",
    "sglang.kernels.ops.speculative.dflash._prepare_dflash_draft_block_unchecked",
    "sglang.kernels.ops.speculative.fused_kv_materialize.FusedKVMaterializeHelper",
    "sglang.srt.arg_groups.overrides.attention_backends_of",
    "sglang.srt.arg_groups.speculative_hook._handle_dflash",
    "sglang.srt.arg_groups.speculative_hook._resolve_dflash_draft_attention_backend",
    "sglang.srt.arg_groups.speculative_hook.handle_speculative_decoding",
    "sglang.srt.layers.attention.attention_registry.create_triton_backend",
    "sglang.srt.layers.attention.triton_backend.TritonAttnBackend",
    "sglang.srt.layers.sampler.top_k_top_p_min_p_sampling_from_probs_torch",
    "sglang.srt.managers.overlap_utils.FutureMap",
    "sglang.srt.mem_cache.memory_pool.MHATokenToKVPool._create_buffers",
    "sglang.srt.mem_cache.memory_pool.MLATokenToKVPool._create_buffers",
    "sglang.srt.model_executor.runner.decode_cuda_graph_runner.DecodeCudaGraphRunner",
    "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo",
    f"{_SPECULATIVE}.dflash_info.DFlashVerifyInput",
    f"{_SPECULATIVE}.dflash_info_v2.DFlashDraftInputV2",
    f"{_SPECULATIVE}.dflash_utils.apply_dflash_verify_logits_adjustments",
    f"{_SPECULATIVE}.dflash_utils.resolve_dflash_verify_mask_policy",
    f"{_SPECULATIVE}.dflash_utils.validate_dflash_request",
    f"{_SPECULATIVE}.dflash_worker_v2.DFlashWorkerV2",
    f"{_SPECULATIVE}.draft_worker_common.build_draft_tp_worker",
    f"{_SPECULATIVE}.spec_registry.CustomSpecAlgo",
]


def register(settings: DDTree) -> None:
    from . import algorithm

    algorithm.register(settings)


def hooks() -> list[Hook]:
    from .embeddings import forward

    return [Hook(DRAFTER_FORWARD, "around", forward)]
