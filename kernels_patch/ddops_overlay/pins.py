"""What the overlay was written for: SGLang's version, and the source of each function it touches.

`python -m ddops_overlay.repin`, in an environment with the new SGLang, prints the table anew; read what changed
in each function before taking it over.
"""

from __future__ import annotations

SGLANG = "0.5.16"

# fmt: off
SOURCES: dict[str, str] = {
    "sglang.srt.entrypoints.engine.Engine._launch_detokenizer_subprocesses":
        "7140022d94d8dd5eb4e01ff01e197adc8b2ce3ecbf3d19246a622b181303e61e",
    "sglang.srt.layers.attention.torch_native_backend.TorchNativeAttnBackend.forward_extend":
        "9d94d3cc90d249c5c8cd8a337eef06d113488af6712a75d8a631e157416e8d02",
    "sglang.srt.layers.attention.triton_backend.TritonAttnBackend.__init__":
        "9c5dd2ee8a51a0ea73a10abf22d0de7eaafd4b81776eea2689d4e5d0a1045dee",
    "sglang.srt.managers.scheduler.Scheduler.run_batch":
        "f124fb309e6cc91b58a267052804861ebff1b29c4274578377f5cd8ccc1edfd9",
    "sglang.srt.managers.scheduler.configure_scheduler_process":
        "e26ee7cef42836bdb03aac6ef42364a7a4938db63bdb1f8fb10eacd259f51a47",
    "sglang.srt.mem_cache.allocator.token.TokenToKVPoolAllocator.__init__":
        "05da86d71ac781985394dd49f6a6b3550f76cf0ce093bfdaf3a540898b8a488d",
    "sglang.srt.mem_cache.memory_pool.MHATokenToKVPool._move_kv_cache_impl":
        "64d8630bc226f626c1ab85c1c4974ce885629e7986809afd95e5882e7a87c964",
    "sglang.srt.mem_cache.memory_pool.move_kv_cache_native":
        "e3b30f9a2ab9553ec3a21e2731d21425d244dc1e2fcffbe401913f0b8b912efe",
    "sglang.srt.model_executor.model_runner.ModelRunner.forward":
        "8bc7506355f2a2b7dc050b182ceb9b993f5e6cf2f4f0e1f1b4a308c2f1699196",
    "sglang.srt.server_args.ServerArgs.check_server_args":
        "290009fd05824919b78b1dc6d6fb25f285f10580967b69fdc2d5485bdb40cb65",
}
