"""The accepted path: from the root, as long as the target's own token is a child, follow it.

    node = root
    repeat: emit target[node]; stop at a stop token or at the limit; node = the child whose token was emitted

The last token emitted is the next root. A stop token or the limit inside a path ends it there, so nothing behind
them is committed. `last_lens[b]` is the committed length at which request b is full: it may emit
max(last_lens[b] - prefix_lens[b], 1) tokens. A negative last_lens[b] is nobody's row: nothing is emitted, lens[b] is 0.

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

    @staticmethod
    def words(bs: int, longest: int) -> int:
        """int64 words that a walk of bs paths lies in."""
        return bs * (2 * longest + 3)

    @classmethod
    def over(cls, words: torch.Tensor, bs: int, longest: int) -> Walk:
        """The walk that lies in these words, so that one copy takes all of it along."""
        wide = bs * longest
        emitted, path, bonus, new_lens, lens = words.split([wide, wide, bs, bs, bs])
        return cls(emitted.view(bs, longest), path.view(bs, longest), lens.view(torch.int32)[:bs], bonus, new_lens)

    @classmethod
    def empty(cls, bs: int, longest: int, device: torch.device | str) -> Walk:
        return cls.over(torch.empty(cls.words(bs, longest), dtype=torch.int64, device=device), bs, longest)


def reference(
    target: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    prefix_lens: torch.Tensor,
    last_lens: torch.Tensor,
    stops: torch.Tensor,
    out: Walk,
) -> None:
    (bs, rows), longest = tokens.shape, out.path.shape[1]
    out.emitted.zero_()
    for b in range(bs):
        limit = min(max(int(last_lens[b] - prefix_lens[b]), 1), longest) if last_lens[b] >= 0 else 0
        node, count, token = 0, 0, int(target[b, 0])
        out.path[b] = b * rows
        while count < limit:
            token = int(target[b, node])
            out.emitted[b, count] = token
            out.path[b, count] = b * rows + node
            count += 1
            children = ((parents[b] == node) & (tokens[b] == token)).nonzero().flatten().tolist()
            if token in stops[b].tolist() or not children:
                break
            node = children[0]
        out.lens[b] = count
        out.bonus[b] = token
        out.new_lens[b] = prefix_lens[b] + count


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
    last_len = tl.load(last_lens + b)
    limit = tl.where(last_len < 0, 0, tl.minimum(tl.maximum(last_len - prefix, 1), P))

    node = 0
    count = 0
    alive = (limit > 0).to(tl.int32)
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
    out: Walk,
) -> None:
    """As `reference`; all tensors contiguous, E a power of two."""
    bs, rows = tokens.shape
    _walk_kernel[(bs,)](
        target,
        tokens,
        parents,
        prefix_lens,
        last_lens,
        stops,
        *out,
        N=rows,
        P=out.path.shape[1],
        E=stops.shape[1],
        BLOCK=triton.next_power_of_2(rows),
        num_warps=1,
    )


def walk(
    target: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    prefix_lens: torch.Tensor,
    last_lens: torch.Tensor,
    stops: torch.Tensor,
    out: Walk,
) -> None:
    """Writes the accepted paths into `out`, whose width is the longest path."""
    (kernel if target.is_cuda else reference)(target, tokens, parents, prefix_lens, last_lens, stops, out)
