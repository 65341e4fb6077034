"""The buffers of the trees of a batch: one address for the life of the process, guard bands around each.

Captured graphs hold addresses. So these are made once, for the largest batch, and only ever written in place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

GUARD_BYTES = 512
_PATTERN = 0xA5


class Guarded:
    """A tensor between two bands of a known pattern; `intact` tells whether something wrote past its ends."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str, fill: int = 0) -> None:
        size = math.prod(shape) * dtype.itemsize
        padded = -(-size // GUARD_BYTES) * GUARD_BYTES
        self._whole = torch.full((padded + 2 * GUARD_BYTES,), _PATTERN, dtype=torch.uint8, device=device)
        self.tensor = self._whole[GUARD_BYTES : GUARD_BYTES + size].view(dtype).view(shape)
        self.tensor.fill_(fill)
        self._size = size

    def intact(self) -> bool:
        bands = (self._whole[:GUARD_BYTES], self._whole[GUARD_BYTES + self._size :])
        return all(bool((band == _PATTERN).all()) for band in bands)


class Tree(NamedTuple):
    """tokens [bs, N] int64, parents and depths [bs, N] int32; row 0 is the root (ops/build_tree.py)."""

    tokens: torch.Tensor
    parents: torch.Tensor
    depths: torch.Tensor


class TreeBuffers:
    """Room for `rows` requests of N = `width` nodes; every row is a valid chain of no nodes from the start."""

    def __init__(self, rows: int, width: int, device: torch.device | str) -> None:
        self.rows, self.width = rows, width
        self.guarded = {
            "tokens": Guarded((rows, width), torch.int64, device),
            "parents": Guarded((rows, width), torch.int32, device, fill=-1),
            "depths": Guarded((rows, width), torch.int32, device),
            "positions": Guarded((rows, width), torch.int64, device),
            "slots": Guarded((rows, width), torch.int64, device),
        }
        self.positions = self.guarded["positions"].tensor
        self.slots = self.guarded["slots"].tensor

    def of(self, bs: int) -> Tree:
        return Tree(*(self.guarded[name].tensor[:bs] for name in Tree._fields))
