"""The KV pool: SGLang's, but accepted draft tokens are moved by plain torch indexing.

SGLang's own move copies bytes with a Triton kernel, or on a CPU with one of sgl_kernel, which is not there.
"""

from __future__ import annotations

import torch
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, move_kv_cache_native


class CpuKVPool(MHATokenToKVPool):  # type: ignore[misc]
    def _move_kv_cache_impl(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        move_kv_cache_native(self.k_buffer, self.v_buffer, tgt_loc, src_loc)
