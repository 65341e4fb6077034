"""Where the N rows of a request stand: position = prefix + depth, KV slot = the request's next N slots in order.

    positions[b, i] = prefix_lens[b] + depths[b, i]
    slots[b, i]     = req_to_token[req[b], prefix_lens[b] + i]

Siblings share a position and never a slot. Shapes: depths [bs, N] int32, prefix_lens [bs] and req [bs] int64 or
int32, req_to_token [rows, columns] int32; out positions and slots [bs, N] int64. Offsets into req_to_token are int64.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


def reference(
    depths: torch.Tensor,
    prefix_lens: torch.Tensor,
    req: torch.Tensor,
    req_to_token: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    start = prefix_lens.long()[:, None]
    positions.copy_(start + depths)
    columns = start + torch.arange(depths.shape[1], device=depths.device)
    slots.copy_(req_to_token[req.long()[:, None], columns])


@triton.jit
def _rows_kernel(
    depths, prefix_lens, req, req_to_token, positions, slots, row_stride, N: tl.constexpr, BLOCK: tl.constexpr
):
    b = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    prefix = tl.load(prefix_lens + b).to(tl.int64)
    row = tl.load(req + b).to(tl.int64)
    depth = tl.load(depths + b * N + i, mask=i < N, other=0)
    tl.store(positions + b * N + i, prefix + depth, mask=i < N)
    slot = tl.load(req_to_token + row * row_stride + prefix + i, mask=i < N, other=0)
    tl.store(slots + b * N + i, slot.to(tl.int64), mask=i < N)


def kernel(
    depths: torch.Tensor,
    prefix_lens: torch.Tensor,
    req: torch.Tensor,
    req_to_token: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """As `reference`; all contiguous but req_to_token, whose columns are."""
    bs, rows = depths.shape
    _rows_kernel[(bs,)](
        depths,
        prefix_lens,
        req,
        req_to_token,
        positions,
        slots,
        req_to_token.stride(0),
        N=rows,
        BLOCK=triton.next_power_of_2(rows),
        num_warps=1,
    )


def verify_rows(
    depths: torch.Tensor,
    prefix_lens: torch.Tensor,
    req: torch.Tensor,
    req_to_token: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    (kernel if depths.is_cuda else reference)(depths, prefix_lens, req, req_to_token, positions, slots)
