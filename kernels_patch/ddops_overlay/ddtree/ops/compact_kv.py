"""The KV of the accepted path moves to the front of the request's N slots; every layer, keys and values.

    buffer[slots[b, k]] = buffer[slots[b, path[b, k]]]     k = 1 .. lens[b] - 1

Paths ascend and path[b, k] >= k, so in ascending k no row is overwritten before it was read. One program owns a
stripe of bytes of a request in one buffer and goes through k in order, each thread over its own bytes: no two
threads touch the same byte. A path that is a prefix (path[b, k] = k) moves nothing. Offsets are int64: a pool
larger than 2^31 elements is common.

Shapes: slots [bs, N] int64; path [bs, P] int64 rows of the flat batch (b * N + node); lens [bs] int32. Buffers are
[slots of the pool, ...] and contiguous; `Table` holds their addresses and their bytes a slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl

_WORDS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}
_STRIPE = 256


class Table(NamedTuple):
    """addresses and words [T] int64; `word` bytes a word, `widest` words in the widest row."""

    addresses: torch.Tensor
    words: torch.Tensor
    word: int
    widest: int

    @classmethod
    def of(cls, buffers: Sequence[torch.Tensor]) -> Table:
        rows = [buffer[0].nbytes for buffer in buffers]
        word = max(size for size in _WORDS if all(row % size == 0 for row in rows))
        device = buffers[0].device
        addresses = torch.tensor([buffer.data_ptr() for buffer in buffers], dtype=torch.int64, device=device)
        words = torch.tensor([row // word for row in rows], dtype=torch.int64, device=device)
        return cls(addresses, words, word, max(rows) // word)


def reference(buffers: Sequence[torch.Tensor], slots: torch.Tensor, path: torch.Tensor, lens: torch.Tensor) -> None:
    kept = torch.arange(path.shape[1], device=path.device) < lens[:, None]
    source = slots.flatten()[path[kept]]
    target = slots[:, : path.shape[1]][kept[:, : slots.shape[1]]]
    for buffer in buffers:
        buffer[target] = buffer[source]


@triton.jit
def _compact_kernel(
    addresses,
    words,
    slots,
    path,
    lens,
    N: tl.constexpr,
    P: tl.constexpr,
    WORD: tl.constexpr,
    STRIPE: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    t = tl.program_id(1)
    width = tl.load(words + t)
    column = tl.program_id(2) * STRIPE + tl.arange(0, STRIPE)
    address = tl.load(addresses + t)
    if WORD == 8:
        base = address.to(tl.pointer_type(tl.int64))
    elif WORD == 4:
        base = address.to(tl.pointer_type(tl.int32))
    elif WORD == 2:
        base = address.to(tl.pointer_type(tl.int16))
    else:
        base = address.to(tl.pointer_type(tl.int8))
    count = tl.load(lens + b)
    for k in range(1, P):
        row = tl.load(path + b * P + k)
        if (k < count) & (row != b * N + k):
            source = tl.load(slots + row)
            target = tl.load(slots + b * N + k)
            data = tl.load(base + source * width + column, mask=column < width)
            tl.store(base + target * width + column, data, mask=column < width)


def kernel(table: Table, slots: torch.Tensor, path: torch.Tensor, lens: torch.Tensor) -> None:
    """As `reference` on the buffers of the table; all tensors contiguous."""
    bs, rows = slots.shape
    grid = (bs, table.addresses.shape[0], triton.cdiv(table.widest, _STRIPE))
    _compact_kernel[grid](
        table.addresses,
        table.words,
        slots,
        path,
        lens,
        N=rows,
        P=path.shape[1],
        WORD=table.word,
        STRIPE=_STRIPE,
        num_warps=4,
    )


def compact_kv(
    buffers: Sequence[torch.Tensor], table: Table, slots: torch.Tensor, path: torch.Tensor, lens: torch.Tensor
) -> None:
    if slots.is_cuda:
        kernel(table, slots, path, lens)
    else:
        reference(buffers, slots, path, lens)
