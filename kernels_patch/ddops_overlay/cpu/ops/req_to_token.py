"""Write newly allocated KV slots into each request's row, at positions start..end-1.

    req_to_token[pool_index[b], start[b] : end[b]] = the next end[b] - start[b] of out_cache_loc

Source: SGLang, srt/mem_cache/allocation.py, assign_req_to_token_pool.
"""

from __future__ import annotations

import torch


def assign_req_to_token_pool(
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
        req_to_token[row, start:end] = out_cache_loc[done : done + end - start].to(req_to_token.dtype)
        done += end - start
