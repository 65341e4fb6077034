"""The out-of-tree platform ddops-cpu: SGLang's own CPU device, with the pools that 0.5.16 asks of a plug-in."""

from __future__ import annotations

from typing import Any

from sglang.srt.platforms.cpu import CpuDeviceMixin
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import SRTPlatform


class CpuPlatform(CpuDeviceMixin, SRTPlatform):  # type: ignore[misc]
    _enum = PlatformEnum.OOT

    def get_default_attention_backend(self) -> str:
        return "torch_native"

    def get_mha_kv_pool_cls(self) -> type:
        from .kv_pool import CpuKVPool

        return CpuKVPool

    def get_paged_allocator_cls(self) -> type:
        from .allocator import CpuAllocator

        return CpuAllocator

    def get_compile_backend(self, mode: str | None = None) -> str:
        return "eager"

    def support_cuda_graph(self) -> bool:
        return False

    def is_pin_memory_available(self, device: Any = None) -> bool:
        return False
