"""Who sees whom: a row sees the whole prefix, its ancestors and itself.

SGLang's layout: request b's mask is N rows of prefix + N bytes, at mask[starts[b]]; a byte of 1 lets the row see the
column. The kernel writes the last N columns of each row and leaves the prefix columns as they are: the Triton
attention does not read them (skip_prefix_custom_mask). The reference writes both.

Shapes: parents [bs, N] int32 (-1: none), prefix_lens [bs] int64 or int32, starts [bs] int64, mask [any] uint8.
A chain of ancestors is followed for `depth` steps, the deepest that a node can be.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


def visible(parents: torch.Tensor, depth: int) -> torch.Tensor:
    """[bs, N, N] bool: row i sees column j."""
    bs, rows = parents.shape
    out = torch.eye(rows, dtype=torch.bool, device=parents.device).repeat(bs, 1, 1)
    ancestor = parents.long()
    for _ in range(depth):
        known = ancestor >= 0
        out |= (torch.arange(rows, device=parents.device) == ancestor[..., None]) & known[..., None]
        ancestor = torch.where(known, parents.long().gather(1, ancestor.clamp_min(0)), ancestor)
    return out


def reference(
    parents: torch.Tensor, prefix_lens: torch.Tensor, starts: torch.Tensor, mask: torch.Tensor, depth: int
) -> None:
    rows = parents.shape[1]
    for b, tree in enumerate(visible(parents, depth)):
        prefix, start = int(prefix_lens[b]), int(starts[b])
        block = mask[start : start + rows * (prefix + rows)].view(rows, prefix + rows)
        block[:, :prefix] = 1
        block[:, prefix:] = tree


@triton.jit
def _mask_kernel(parents, prefix_lens, starts, mask, DEPTH: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1)
    column = tl.arange(0, BLOCK)
    seen = column == row
    ancestor = tl.load(parents + b * N + row)
    for _ in range(DEPTH):
        seen |= column == ancestor
        ancestor = tl.load(parents + b * N + ancestor, mask=ancestor >= 0, other=-1)
    prefix = tl.load(prefix_lens + b).to(tl.int64)
    at = tl.load(starts + b).to(tl.int64) + row * (prefix + N) + prefix
    tl.store(mask + at + column, seen.to(tl.uint8), mask=column < N)


def kernel(
    parents: torch.Tensor, prefix_lens: torch.Tensor, starts: torch.Tensor, mask: torch.Tensor, depth: int
) -> None:
    """As `reference` in the last N columns of each row; all tensors contiguous."""
    bs, rows = parents.shape
    _mask_kernel[(bs, rows)](
        parents, prefix_lens, starts, mask, DEPTH=depth, N=rows, BLOCK=triton.next_power_of_2(rows), num_warps=1
    )


def tree_mask(
    parents: torch.Tensor, prefix_lens: torch.Tensor, starts: torch.Tensor, mask: torch.Tensor, depth: int
) -> None:
    (kernel if parents.is_cuda else reference)(parents, prefix_lens, starts, mask, depth)
