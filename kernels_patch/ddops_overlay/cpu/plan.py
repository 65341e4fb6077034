"""What the CPU platform needs of SGLang, in one place: read by the plug-in, imports nothing heavy."""

from __future__ import annotations

from ..hooks import Hook

BASES = [
    "sglang.srt.mem_cache.memory_pool.MHATokenToKVPool._move_kv_cache_impl",
    "sglang.srt.mem_cache.memory_pool.move_kv_cache_native",
    "sglang.srt.mem_cache.allocator.token.TokenToKVPoolAllocator.__init__",
]

ATTENTION = "sglang.srt.layers.attention.torch_native_backend.TorchNativeAttnBackend.forward_extend"


# SGLang 0.5.16 knows only GPU back-ends for a DFlash drafter
DRAFTER_ATTENTION = "sglang.srt.speculative.draft_worker_common._resolve_draft_attention_backend_fallback"


def activate() -> str:
    """Make the platform's operations importable, and name its class."""
    from . import sgl_kernel

    sgl_kernel.install()
    return "ddops_overlay.cpu.platform:CpuPlatform"


def hooks() -> list[Hook]:
    from .attention import forward_extend

    return [Hook(ATTENTION, "around", forward_extend)]


def drafter_hooks() -> list[Hook]:
    from .drafter import attention_backend

    return [Hook(DRAFTER_ATTENTION, "around", attention_backend)]
