"""The accepted path: from the root, as long as the target's own token is a child, follow it.

    node = root
    repeat: emit target[node]; stop at a stop token or at the limit; node = the child whose token was emitted

The last token emitted is the next root. A stop token or the limit inside a path ends it there, so nothing behind
them is committed. `last_lens[b]` is the committed length at which request b is full: it may emit
max(last_lens[b] - prefix_lens[b], 1) tokens.

Shapes: target, tokens [bs, N] int64; parents [bs, N] int32; prefix_lens, last_lens [bs] int64; stops [bs, E] int64,
-1 where there is none. Out: emitted [bs, P] int64 (0 behind the path), path [bs, P] int64: rows b * N + node of the
flat batch (behind the path: the root's), lens [bs] int32: tokens emitted, which is also KV rows to keep (the root and
the accepted nodes), bonus [bs] int64: the next root, new_lens [bs] int64 = prefix_lens + lens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl


class Walk(NamedTuple):
    emitted: torch.Tensor
    path: torch.Tensor
    lens: torch.Tensor
    bonus: torch.Tensor
    new_lens: torch.Tensor

    @classmethod
    def empty(cls, bs: int, longest: int, device: torch.device | str) -> Walk:
        wide = torch.empty((2, bs, longest), dtype=torch.int64, device=device)
        narrow = torch.empty((2, bs), dtype=torch.int64, device=device)
        lens = torch.empty((bs,), dtype=torch.int32, device=device)
        return cls(wide[0], wide[1], lens, narrow[0], narrow[1])


def reference(
    target: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    prefix_lens: torch.Tensor,
    last_lens: torch.Tensor,
    stops: torch.Tensor,
    longest: int,
) -> Walk:
    bs, rows = tokens.shape
    out = Walk.empty(bs, longest, tokens.device)
    out.emitted.zero_()
    for b in range(bs):
        limit = min(max(int(last_lens[b] - prefix_lens[b]), 1), longest)
        node, count = 0, 0
        out.path[b] = b * rows
        while True:
            token = int(target[b, node])
            out.emitted[b, count] = token
            out.path[b, count] = b * rows + node
            count += 1
            children = ((parents[b] == node) & (tokens[b] == token)).nonzero().flatten().tolist()
            if count == limit or token in stops[b].tolist() or not children:
                break
            node = children[0]
        out.lens[b] = count
        out.bonus[b] = token
        out.new_lens[b] = prefix_lens[b] + count
    return out


@triton.jit
def _walk_kernel(
    target,
    tokens,
    parents,
    prefix_lens,
    last_lens,
    stops,
    emitted,
    path,
    lens,
    bonus,
    new_lens,
    N: tl.constexpr,
    P: tl.constexpr,
    E: tl.constexpr,
    BLOCK: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    e = tl.arange(0, E)
    token = tl.load(tokens + b * N + i, mask=i < N, other=-1)
    parent = tl.load(parents + b * N + i, mask=i < N, other=-1)
    stop = tl.load(stops + b * E + e)
    prefix = tl.load(prefix_lens + b)
    limit = tl.minimum(tl.maximum(tl.load(last_lens + b) - prefix, 1), P)

    node = 0
    count = 0
    alive = 1
    last = tl.load(target + b * N)
    for k in range(P):
        said = tl.load(target + b * N + node)
        last = tl.where(alive == 1, said, last)
        tl.store(emitted + b * P + k, tl.where(alive == 1, said, 0))
        tl.store(path + b * P + k, b * N + tl.where(alive == 1, node, 0))
        count += alive
        child = tl.min(tl.where((parent == node) & (token == said), i, BLOCK), axis=0)
        stopped = tl.max((stop == said).to(tl.int32), axis=0)
        go = (child < BLOCK) & (stopped == 0) & (count < limit)
        alive = tl.where(go, alive, 0)
        node = tl.where(alive == 1, child, node)
    tl.store(lens + b, count)
    tl.store(bonus + b, last)
    tl.store(new_lens + b, prefix + count)


def kernel(
    target: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    prefix_lens: torch.Tensor,
    last_lens: torch.Tensor,
    stops: torch.Tensor,
    longest: int,
) -> Walk:
    """As `reference`; all tensors contiguous, E a power of two."""
    bs, rows = tokens.shape
    out = Walk.empty(bs, longest, tokens.device)
    _walk_kernel[(bs,)](
        target,
        tokens,
        parents,
        prefix_lens,
        last_lens,
        stops,
        *out,
        N=rows,
        P=longest,
        E=stops.shape[1],
        BLOCK=triton.next_power_of_2(rows),
        num_warps=1,
    )
    return out


def walk(
    target: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    prefix_lens: torch.Tensor,
    last_lens: torch.Tensor,
    stops: torch.Tensor,
    longest: int,
) -> Walk:
    chosen = kernel if target.is_cuda else reference
    return chosen(target, tokens, parents, prefix_lens, last_lens, stops, longest)
