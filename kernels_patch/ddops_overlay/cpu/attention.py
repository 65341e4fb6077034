"""TARGET_VERIFY for the torch_native attention back-end, which knows only prefill and decode.

Around TorchNativeAttnBackend.forward_extend: a verification goes to `ops.verify_attention`, request by
request; everything else to the original.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .ops.verify_attention import split_masks, verify_attention


def forward_extend(
    original: Callable[..., torch.Tensor],
    backend: Any,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    layer: Any,
    forward_batch: Any,
    save_kv_cache: bool = True,
) -> torch.Tensor:
    if not forward_batch.forward_mode.is_target_verify():
        return original(backend, q, k, v, layer, forward_batch, save_kv_cache)
    if save_kv_cache:
        _write_kv(backend, layer, forward_batch, k, v)

    query = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
    keys = backend.token_to_kv_pool.get_key_buffer(layer.layer_id)
    values = backend.token_to_kv_pool.get_value_buffer(layer.layer_id)
    slots = backend.req_to_token_pool.req_to_token
    prefixes = forward_batch.seq_lens.tolist()
    width = query.shape[0] // len(prefixes)
    masks = split_masks(getattr(forward_batch.spec_info, "custom_mask", None), prefixes, width)

    outputs = []
    for i, (row, prefix) in enumerate(zip(forward_batch.req_pool_indices.tolist(), prefixes, strict=True)):
        context = slots[row, : prefix + width].long()
        outputs.append(
            verify_attention(
                query[i * width : (i + 1) * width], keys[context], values[context], masks[i], layer.scaling
            )
        )
    return torch.cat(outputs).reshape(-1, layer.tp_q_head_num * layer.v_head_dim)


def _write_kv(backend: Any, layer: Any, forward_batch: Any, k: torch.Tensor, v: torch.Tensor) -> None:
    from sglang.srt.mem_cache.memory_pool import KVWriteLoc

    where = KVWriteLoc(forward_batch.out_cache_loc, backend.swa_out_cache_loc)
    backend.token_to_kv_pool.set_kv_buffer(layer, where, k, v)
