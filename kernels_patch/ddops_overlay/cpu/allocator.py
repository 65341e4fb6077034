"""The allocator of KV slots: SGLang's token allocator behind the signature that it calls platforms with."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator


class CpuAllocator(TokenToKVPoolAllocator):  # type: ignore[misc]
    def __init__(
        self, size: int, page_size: int, dtype: torch.dtype, device: str, kvcache: Any, need_sort: bool
    ) -> None:
        if page_size != 1:
            raise ValueError(f"the CPU platform has pages of one token, not {page_size}")
        super().__init__(size, dtype, device, kvcache, need_sort)
