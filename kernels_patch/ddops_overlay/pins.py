"""What the overlay was written for: SGLang's version, and the source of each function it touches.

`python -m ddops_overlay.repin`, in an environment with the new SGLang, prints the table anew; read what changed
in each function before taking it over.
"""

from __future__ import annotations

SGLANG = "0.5.16"

# fmt: off
SOURCES: dict[str, str] = {
    "sglang.kernels.ops.attention.extend_attention._fwd_kernel":
        "53a541b617947bf2c13e05ae7ef621c30e4e5816c60feb644fb96acb0e63c53e",
    "sglang.kernels.ops.attention.extend_attention._get_block_sizes_for_extend_attention":
        "f35daf38784c839686e32ce6f4e6076a25741661a6ac6b8c48b6114e6be4d88f",
    "sglang.kernels.ops.speculative.dflash._prepare_dflash_draft_block_unchecked":
        "30ed4248a164211fa9e584d75a246125b4dc58f0e386fabd67f7b73d993f2a15",
    "sglang.kernels.ops.speculative.fused_kv_materialize.FusedKVMaterializeHelper":
        "9debadaee8d7813ef23e5d4f165493c96f3a7c6db1deccac1e1a43bb1fdc9c6b",
    "sglang.srt.arg_groups.overrides.attention_backends_of":
        "23319fc6c80dce46f80e4d08df9e0f888dfbbfaacec0c232ded34c80caccb4bf",
    "sglang.srt.arg_groups.speculative_hook._handle_dflash":
        "fd6e0d03626311a9d3c0f1b4b32aef2d7f57b8d865b9c5a46edc4e5e9c6d4233",
    "sglang.srt.arg_groups.speculative_hook._resolve_dflash_draft_attention_backend":
        "5ab2277709f70d4f4e4340ef069eb36eb1766594b44a1fe7c9a52b6eaff1b568",
    "sglang.srt.arg_groups.speculative_hook.handle_speculative_decoding":
        "4173169966d10f8d88e7a49d1d3b38d9ed7978101b59d1bb2442537db95fadf1",
    "sglang.srt.entrypoints.engine.Engine._launch_detokenizer_subprocesses":
        "7140022d94d8dd5eb4e01ff01e197adc8b2ce3ecbf3d19246a622b181303e61e",
    "sglang.srt.layers.attention.attention_registry.create_triton_backend":
        "9e40f19fbf981e92b8429a6297fb5e6453c01d6a4f3bb2760af8f9293afcb2ea",
    "sglang.srt.layers.attention.torch_native_backend.TorchNativeAttnBackend.forward_extend":
        "9d94d3cc90d249c5c8cd8a337eef06d113488af6712a75d8a631e157416e8d02",
    "sglang.srt.layers.attention.triton_backend.TritonAttnBackend":
        "8887e4f2e846511377bbea9ec8e8197567d70b0afacd4f955805bf9e46ad52f2",
    "sglang.srt.layers.attention.triton_backend.TritonAttnBackend.__init__":
        "9c5dd2ee8a51a0ea73a10abf22d0de7eaafd4b81776eea2689d4e5d0a1045dee",
    "sglang.srt.layers.sampler.top_k_top_p_min_p_sampling_from_probs_torch":
        "1fd25199a33fd6f7fdda048c2e255e56074c4df5dcc739f02831f4b38ee5da9a",
    "sglang.srt.managers.overlap_utils.FutureMap":
        "2cc0834ea8e2d7127154a7d5e6b09d66d401f24bf25b3e06400bef8697909074",
    "sglang.srt.managers.scheduler.Scheduler.run_batch":
        "f124fb309e6cc91b58a267052804861ebff1b29c4274578377f5cd8ccc1edfd9",
    "sglang.srt.managers.scheduler.configure_scheduler_process":
        "e26ee7cef42836bdb03aac6ef42364a7a4938db63bdb1f8fb10eacd259f51a47",
    "sglang.srt.mem_cache.allocator.token.TokenToKVPoolAllocator.__init__":
        "05da86d71ac781985394dd49f6a6b3550f76cf0ce093bfdaf3a540898b8a488d",
    "sglang.srt.mem_cache.memory_pool.MHATokenToKVPool._create_buffers":
        "f8000694e27a3cd57f7135d0d8ff0bf05ca533e3c5456f4ab21aa51b1a3db9c1",
    "sglang.srt.mem_cache.memory_pool.MHATokenToKVPool._move_kv_cache_impl":
        "64d8630bc226f626c1ab85c1c4974ce885629e7986809afd95e5882e7a87c964",
    "sglang.srt.mem_cache.memory_pool.MLATokenToKVPool._create_buffers":
        "71b103b8b76f81ad5bc0ebfbedae4a8c5d16d03628a050fa5ead8cf959fcecea",
    "sglang.srt.mem_cache.memory_pool.move_kv_cache_native":
        "e3b30f9a2ab9553ec3a21e2731d21425d244dc1e2fcffbe401913f0b8b912efe",
    "sglang.srt.model_executor.model_runner.ModelRunner.forward":
        "8bc7506355f2a2b7dc050b182ceb9b993f5e6cf2f4f0e1f1b4a308c2f1699196",
    "sglang.srt.model_executor.runner.decode_cuda_graph_runner.DecodeCudaGraphRunner":
        "c6f1dfccd36caa9fe7780e76fb07497eb4d7413b9c886939ffc4542eb5405cc3",
    "sglang.srt.models.dflash.DFlashDraftModel.forward":
        "1e0e7335e08014ce03093c508da30151b8c6ec83bb8284d1738304bb8400921e",
    "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo":
        "d9cf8bd3404ac3f9a5f7a320f57a1ab9c6669cb693b6dfb29a3a79d8eb733d01",
    "sglang.srt.server_args.ServerArgs.check_server_args":
        "290009fd05824919b78b1dc6d6fb25f285f10580967b69fdc2d5485bdb40cb65",
    "sglang.srt.speculative.dflash_info.DFlashVerifyInput":
        "9583a32e274e6843cc1dd50e1a0cf1f6251a47cae2ee6eb2ef1a82520b0e9251",
    "sglang.srt.speculative.dflash_info_v2.DFlashDraftInputV2":
        "6484613058222d1f1b0d4e55af137be2febdc5339eb82a37a49d15b37b1b5d2b",
    "sglang.srt.speculative.dflash_utils.apply_dflash_verify_logits_adjustments":
        "dd6074d0aef0ea12a7c2ec817c55f6d820a1723b5e2c2ef7786c82bd152f8aea",
    "sglang.srt.speculative.dflash_utils.resolve_dflash_verify_mask_policy":
        "2bf3a78f2b7ac16249ebb34322677d812f018e0b33f615c7055a5953053add60",
    "sglang.srt.speculative.dflash_utils.validate_dflash_request":
        "640f3c133cc85ed06b26cf896426ca78f25382086975707cf52b35514b55c6ba",
    "sglang.srt.speculative.dflash_worker_v2.DFlashWorkerV2":
        "dc5142d8752de149f5760d9680e98a783db4ee975acbe3906866703cd70626a1",
    "sglang.srt.speculative.draft_worker_common._resolve_draft_attention_backend_fallback":
        "ead89c7f26a99fede256e50723307d8b2afddc9346665a19eed79dd9e8dd7834",
    "sglang.srt.speculative.draft_worker_common.build_draft_tp_worker":
        "3b97352fe32a9a1841415798379b125f45a6c86c4a81c8fd69ff532709abf7f0",
    "sglang.srt.speculative.spec_registry.CustomSpecAlgo":
        "9956ad225cfede2ba2654b3fc0813bde624e46209ad209d9853401ff219de0dd",
}
