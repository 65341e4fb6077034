"""Where each request of a batch must end, on the device: the length that fills it, and its stop tokens.

Computed on the host when the batch's members change, sent without waiting. The lengths are those of the request,
not of a step, so they stay right while steps run ahead of the host.

The target's graph reads them from buffers of one address, in which every row that it must not commit is nobody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .buffers import Guarded

_FAR = 1 << 40
_NONE = -1
# stop tokens of a request that a graph has room for; a batch with more is committed after its pass
_STOPS = 8


class Limits:
    def __init__(self, eos: set[int], rows: int, device: torch.device | str) -> None:
        self._eos, self._device = eos, device
        self._members: tuple[str, ...] = ()
        self._tensors: tuple[torch.Tensor, torch.Tensor] | None = None
        self._in_graph: tuple[str, ...] = ()
        self.guarded = {
            "last lengths": Guarded((rows,), torch.int64, device, fill=_NONE),
            "stop tokens": Guarded((rows, _STOPS), torch.int64, device, fill=_NONE),
        }

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

    def in_graph(self, bs: int) -> tuple[torch.Tensor, torch.Tensor]:
        """As `of`, in the buffers that the graph of bs requests reads."""
        last_lens, stops = (guarded.tensor for guarded in self.guarded.values())
        return last_lens[:bs], stops[:bs]

    def tell_graph(self, requests: Sequence[Any]) -> bool:
        """Whether the next replay commits these requests; with none, or too many stop tokens, it commits nobody."""
        last_lens, stops = self.of(requests) if requests else (None, None)
        fits = stops is not None and stops.shape[1] <= _STOPS
        members = self._members if fits else ()
        if members != self._in_graph:
            for guarded in self.guarded.values():
                guarded.tensor.fill_(_NONE)
            if fits:
                self.guarded["last lengths"].tensor[: len(members)] = last_lens
                self.guarded["stop tokens"].tensor[: len(members), : stops.shape[1]] = stops
            self._in_graph = members
        return fits

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
