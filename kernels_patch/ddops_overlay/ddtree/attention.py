"""The Triton attention of a DDTREE target: SGLang's, with the mask of the step's trees inside the captured graph, and
a kernel of its own for the verified rows (`ops/tree_attention.py`).

SGLang leaves a verification without a mask where it knows the back-end's class by name to be causal; this one has a
name of its own, so the graphs are captured with a mask. The mask is this object's buffer, sized for N rows of the
longest context plus N columns, made once, and written by a kernel that is part of the graph: from the trees, the
prefix lengths and the offsets that stand in captured buffers at replay.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from sglang.kernels.ops.attention.extend_attention import _get_block_sizes_for_extend_attention
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend

from .buffers import Guarded, TreeBuffers
from .ops import tree_attention
from .ops.attention_tile import Tile, tile_of
from .ops.tree_mask import tree_mask
from .rules import require


class DDTreeTritonAttnBackend(TritonAttnBackend):  # type: ignore[misc]
    # the worker sets both before the graphs are captured
    trees: TreeBuffers | None = None
    depth: int = 0

    def __init__(self, runner: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(runner, *args, **kwargs)
        gpu = torch.cuda.get_device_properties(runner.device)
        self._processors, self._capability = gpu.multi_processor_count, gpu.major
        # SGLang's place for a verification in parts, its own being for chains on AMD; what is declined there goes to
        # its prefill kernel
        self.use_verify_splitkv = True
        self.verify_splitkv_fwd = torch.compiler.disable(self._attend)

    def _attend(
        self,
        q: Any,
        k: Any,
        v: Any,
        out: Any,
        k_pool: Any,
        v_pool: Any,
        qo_indptr: Any,
        kv_indptr: Any,
        kv_indices: Any,
        mask: Any,
        causal: bool,
        mask_indptr: Any,
        width: int,
        k_scale: float,
        v_scale: float,
        scale: float,
        *,
        logit_cap: float,
        sliding_window_size: int,
        sinks: Any,
        xai_temperature_len: int,
        **_unused: Any,
    ) -> bool:
        """Verifies a tree; returns False for what the kernel does not do, having done nothing."""
        plain = causal and mask is not None and k_scale == v_scale == 1.0 and sinks is None
        plain = plain and len(q) == (len(qo_indptr) - 1) * width
        # tiles are for two bytes a value; what is narrower is cast in shared memory, of which sm_120 has too little
        plain = plain and q.element_size() == 2 and (k_pool.element_size() == 2 or self._capability != 12)
        if not plain or logit_cap > 0 or sliding_window_size >= 0 or xai_temperature_len > 0:
            return False
        stock = Tile(*_get_block_sizes_for_extend_attention(q.shape[2], v.shape[2]))
        tile = tile_of(stock, self._capability)
        inputs = (q, k, v, out, k_pool, v_pool, kv_indptr, kv_indices, mask, mask_indptr)
        tree_attention.kernel(*inputs, width, scale, tile, self._processors)
        return True

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int, *args: Any, **kwargs: Any) -> None:
        width = self.num_draft_tokens
        require(self.cuda_graph_custom_mask is None, "made-once", "captured buffers would move to another address")
        require(
            max_num_tokens == max_bs * width,
            "width",
            f"the graph runner has {max_num_tokens} rows for {max_bs} requests, the back-end verifies {width} each",
        )
        require(self.trees is not None and self.trees.rows >= max_bs, "tree-rows", f"no room for {max_bs} trees")
        # A verification reads no decode scratch, so that is made for one row a request: SGLang's own sizes grow by
        # megabytes with each row of a long context.
        super().init_cuda_graph_state(max_bs, max_bs, *args, **kwargs)
        columns = max(self.max_context_len, self.req_to_token.shape[1]) + width
        self.guarded_mask = Guarded((max_bs * width * columns,), torch.uint8, self.device)
        self.cuda_graph_custom_mask = self.guarded_mask.tensor

    def _update_target_verify_buffers(self, bs: int, seq_lens: Any, req_pool_indices: Any, _spec_info: Any) -> Any:
        # an empty mask to copy: there is one, and it is written in the graph
        return super()._update_target_verify_buffers(
            bs, seq_lens, req_pool_indices, SimpleNamespace(custom_mask=self.cuda_graph_custom_mask[:0])
        )

    def _build_cuda_graph_forward_metadata(self, bs: int, forward_mode: Any, *args: Any, **kwargs: Any) -> Any:
        metadata = super()._build_cuda_graph_forward_metadata(bs, forward_mode, *args, **kwargs)
        if forward_mode.is_target_verify():
            require(
                metadata.custom_mask is self.cuda_graph_custom_mask,
                "mask-captured",
                "the graph would be captured without a tree mask",
            )
        return metadata

    def init_forward_metadata_in_graph(self, forward_batch: Any) -> None:
        super().init_forward_metadata_in_graph(forward_batch)
        if forward_batch.forward_mode.is_target_verify():
            self._write_mask(forward_batch, self.cuda_graph_custom_mask)

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Without a graph: a mask of this step."""
        eager = forward_batch.forward_mode.is_target_verify() and self.trees is not None
        if eager:
            bs, width = forward_batch.batch_size, self.num_draft_tokens
            columns = self.req_to_token.shape[1] + width
            if forward_batch.seq_lens_cpu is not None:
                columns = min(columns, int(forward_batch.seq_lens_cpu.max()) + width)
            mask = torch.empty(bs * width * columns, dtype=torch.uint8, device=self.device)
            forward_batch.spec_info.custom_mask = mask
        super().init_forward_metadata(forward_batch)
        if eager:
            self._write_mask(forward_batch, mask)

    def _write_mask(self, forward_batch: Any, mask: torch.Tensor) -> None:
        bs = forward_batch.batch_size
        tree_mask(self.trees.of(bs).parents, forward_batch.seq_lens, self.mask_indptr, mask, self.depth)
