"""Where each request of a batch must end, on the device: the length that fills it, and its stop tokens.

Computed on the host when the batch's members change, sent without waiting. The lengths are those of the request,
not of a step, so they stay right while steps run ahead of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_FAR = 1 << 40
_NONE = -1


class Limits:
    def __init__(self, eos: set[int], device: torch.device | str) -> None:
        self._eos, self._device = eos, device
        self._members: tuple[str, ...] = ()
        self._tensors: tuple[torch.Tensor, torch.Tensor] | None = None

    def of(self, requests: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """last_lens [bs] int64 and stops [bs, E] int64, E a power of two (ops/walk.py)."""
        members = tuple(request.rid for request in requests)
        if self._tensors is None or members != self._members:
            stops = [sorted(self._stops(request)) for request in requests]
            wide = 1 << (max(map(len, stops), default=1) - 1).bit_length() if any(stops) else 1
            table = [[*row, *[_NONE] * (wide - len(row))] for row in stops]
            self._tensors = self._send([_last_len(request) for request in requests]), self._send(table)
            self._members = members
        return self._tensors

    def _stops(self, request: Any) -> set[int]:
        params = request.sampling_params
        own = set(params.stop_token_ids or ())
        return own if params.ignore_eos else own | self._eos

    def _send(self, values: list[Any]) -> torch.Tensor:
        host = torch.tensor(values, dtype=torch.int64, pin_memory=torch.device(self._device).type == "cuda")
        return host.to(self._device, non_blocking=True)


def _last_len(request: Any) -> int:
    """Tokens with KV when the last one has been emitted, which itself gets none."""
    new = request.sampling_params.max_new_tokens
    return _FAR if new is None else len(request.origin_input_ids) + int(new) - 1
