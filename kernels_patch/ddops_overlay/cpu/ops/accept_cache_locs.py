"""The KV slots of the accepted rows, packed to the front.

    out[0 : m] = out_cache_loc[r for r in accept_index if r != -1]         (m accepted rows; the tail is left as it is)

Source: SGLang, kernels/ops/speculative/eagle.py, fill_accept_out_cache_loc.
"""

from __future__ import annotations

import torch


def fill_accept_out_cache_loc(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor
) -> None:
    rows = accept_index.flatten()
    accepted = out_cache_loc[rows[rows != -1].long()]
    accept_out_cache_loc[: accepted.numel()] = accepted
