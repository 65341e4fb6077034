"""The KV slots of each request's positions start..end-1, one request after the other.

    out = concat_b req_to_token[pool_index[b], start[b] : end[b]]          (the tail of `out` is left as it is)

Source: SGLang, kernels/ops/speculative/cache_locs.py, assign_extend_cache_locs.
"""

from __future__ import annotations

import torch


def assign_extend_cache_locs(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    _pool_len: int,
) -> None:
    done = 0
    spans = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
    for row, start, end in spans:
        out_cache_loc[done : done + end - start] = req_to_token[row, start:end]
        done += end - start
