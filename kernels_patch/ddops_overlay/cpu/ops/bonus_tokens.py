"""The last accepted token of each request.

    bonus[b] = accept_tokens[b * stride + accept_lens[b] - 1]              (accept_lens counts the bonus)

Source: SGLang, kernels/ops/speculative/eagle.py, fill_bonus_tokens.
"""

from __future__ import annotations

import torch


def fill_bonus_tokens(
    accept_tokens: torch.Tensor, accept_lens: torch.Tensor, bonus_tokens: torch.Tensor, accept_stride: int
) -> None:
    first = torch.arange(accept_lens.numel(), device=accept_lens.device) * accept_stride
    bonus_tokens[: accept_lens.numel()] = accept_tokens.flatten()[first + accept_lens.long() - 1]
