"""What the CPU platform needs of SGLang, in one place: read by the plug-in, imports nothing heavy."""

from __future__ import annotations

from ..hooks import Hook

BASES = [
    "sglang.srt.mem_cache.memory_pool.MHATokenToKVPool._move_kv_cache_impl",
    "sglang.srt.mem_cache.memory_pool.move_kv_cache_native",
    "sglang.srt.mem_cache.allocator.token.TokenToKVPoolAllocator.__init__",
]

ATTENTION = "sglang.srt.layers.attention.torch_native_backend.TorchNativeAttnBackend.forward_extend"


def activate() -> str:
    """Make the platform's operations importable, and name its class."""
    from . import sgl_kernel

    sgl_kernel.install()
    return "ddops_overlay.cpu.platform:CpuPlatform"


def hooks() -> list[Hook]:
    from .attention import forward_extend

    return [Hook(ATTENTION, "around", forward_extend)]
