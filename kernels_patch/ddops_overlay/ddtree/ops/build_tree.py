"""The tree: the B likeliest prefixes of the drafter's block under the product of its per-position probabilities.

A node is a rank at its depth under its parent; its score is the sum of the log-probabilities from the root:

    score(node) = score(parent) + logp[depth - 1, rank],   score(root) = 0

The best set of B prefixes is a tree (a score never grows with depth or rank), so best-first finds it: take the best
candidate, make it a node, and put its next sibling and its first child among the candidates. With `spine` the greedy
chain (rank 0 at every depth) is in the tree first, and best-first fills the rest; without it a flat drafter can cut
the chain short. Best-first always finds another candidate while there is one, so the N rows are real candidates;
where K and L cannot fill the budget, rows are left over with parent -1, which no walk reaches.

Order: parents before children (the attention kernel's tiles stop at their own last row). Ties: candidates live in
numbered slots, and the lowest slot wins: a popped slot passes to the next sibling, node n's first child gets slot n.

Shapes: logp [bs, L, K] float32 sorted along K, ids [bs, L, K] int64, root [bs] int64; out tokens [bs, N] int64,
parents and depths [bs, N] int32 (root: -1 and 0). Log-probabilities below -1e9, and NaN, count as -1e9.

Source: arXiv 2604.12989, algorithm 1; one program a request instead of a heap on the host.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_FLOOR = -1.0e9


def reference(
    logp: torch.Tensor,
    ids: torch.Tensor,
    root: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    depths: torch.Tensor,
    spine: bool,
) -> None:
    tokens.zero_()
    parents.fill_(-1)
    depths.zero_()
    tokens[:, 0] = root
    scores = torch.where(logp > _FLOOR, logp, torch.full_like(logp, _FLOOR))
    for b in range(logp.shape[0]):
        nodes = _best_first(scores[b], tokens.shape[1] - 1, spine)
        for n, (parent, depth, rank) in enumerate(nodes, start=1):
            tokens[b, n] = ids[b, depth - 1, rank]
            parents[b, n] = parent
            depths[b, n] = depth


def _best_first(logp: torch.Tensor, budget: int, spine: bool) -> list[tuple[int, int, int]]:
    """(parent, depth, rank) of nodes 1, 2, ...; sums in float32, as the kernel's."""
    length, width = logp.shape
    slots: dict[int, tuple[float, float, int, int, int]] = {}  # slot: score, parent's score, parent, depth, rank
    nodes: list[tuple[int, int, int]] = []

    def offer(slot: int, base: torch.Tensor, parent: int, depth: int, rank: int) -> None:
        slots.pop(slot, None)
        if depth <= length and rank < width:
            slots[slot] = (float(base + logp[depth - 1, rank]), base, parent, depth, rank)

    zero = torch.zeros((), dtype=torch.float32)
    if spine:
        base = zero
        for depth in range(1, min(length, budget) + 1):
            nodes.append((depth - 1, depth, 0))
            offer(depth - 1, base, depth - 1, depth, 1)
            base = base + logp[depth - 1, 0]
    else:
        offer(0, zero, 0, 1, 0)
    while len(nodes) < budget and slots:
        slot = min(slots, key=lambda s: (-slots[s][0], s))
        _, base, parent, depth, rank = slots[slot]
        nodes.append((parent, depth, rank))
        n = len(nodes)
        offer(slot, base, parent, depth, rank + 1)
        offer(n, base + logp[depth - 1, rank], n, depth + 1, 0)
    return nodes


@triton.jit
def _build_kernel(
    logp,
    ids,
    root,
    tokens,
    parents,
    depths,
    L: tl.constexpr,
    K: tl.constexpr,
    N: tl.constexpr,
    SPINE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    logp += b * L * K
    ids += b * L * K
    tokens += b * N
    parents += b * N
    depths += b * N
    floor = -1.0e9
    empty = -float("inf")

    slot = tl.arange(0, BLOCK)
    tl.store(tokens + slot, 0, mask=slot < N)
    tl.store(parents + slot, -1, mask=slot < N)
    tl.store(depths + slot, 0, mask=slot < N)
    # the same addresses are written again below, by other threads of this program
    tl.debug_barrier()
    tl.store(tokens, tl.load(root + b))

    score = tl.full([BLOCK], empty, tl.float32)
    base = tl.zeros([BLOCK], tl.float32)
    # parent, depth and rank of a candidate in one number: 12, 8 and 12 bits
    what = tl.zeros([BLOCK], tl.int32)
    first = 1
    if SPINE:
        total = 0.0
        for d in tl.static_range(1, L + 1):
            if d < N:
                tl.store(tokens + d, tl.load(ids + (d - 1) * K))
                tl.store(parents + d, d - 1)
                tl.store(depths + d, d)
                if K > 1:
                    second = tl.load(logp + (d - 1) * K + 1)
                    second = tl.where(second > floor, second, floor)
                    score = tl.where(slot == d - 1, total + second, score)
                    base = tl.where(slot == d - 1, total, base)
                    what = tl.where(slot == d - 1, ((d - 1) << 20) + (d << 12) + 1, what)
                best = tl.load(logp + (d - 1) * K)
                total += tl.where(best > floor, best, floor)
                first = d + 1
    else:
        best = tl.load(logp)
        score = tl.where(slot == 0, tl.where(best > floor, best, floor), score)
        what = tl.where(slot == 0, 1 << 12, what)

    for n in range(first, N):
        top, place = tl.max(score, axis=0, return_indices=True, return_indices_tie_break_left=True)
        chosen = tl.sum(tl.where(slot == place, what, 0), axis=0)
        above = tl.sum(tl.where(slot == place, base, 0.0), axis=0)
        parent = chosen >> 20
        depth = (chosen >> 12) & 255
        rank = chosen & 4095
        real = top > empty
        sibling = real & (rank + 1 < K)
        child = real & (depth < L)
        tl.store(tokens + n, tl.load(ids + (depth - 1) * K + rank, mask=real, other=0))
        tl.store(parents + n, tl.where(real, parent, -1))
        tl.store(depths + n, tl.where(real, depth, 0))
        next_rank = tl.load(logp + (depth - 1) * K + rank + 1, mask=sibling, other=0.0)
        next_rank = tl.where(next_rank > floor, next_rank, floor)
        next_depth = tl.load(logp + depth * K, mask=child, other=0.0)
        next_depth = tl.where(next_depth > floor, next_depth, floor)
        here = slot == place
        score = tl.where(here, tl.where(sibling, above + next_rank, empty), score)
        what = tl.where(here, (parent << 20) + (depth << 12) + rank + 1, what)
        below = slot == n
        score = tl.where(below, tl.where(child, top + next_depth, empty), score)
        base = tl.where(below, top, base)
        what = tl.where(below, (n << 20) + ((depth + 1) << 12), what)


def kernel(
    logp: torch.Tensor,
    ids: torch.Tensor,
    root: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    depths: torch.Tensor,
    spine: bool,
) -> None:
    """As `reference`; all tensors contiguous."""
    bs, length, width = logp.shape
    rows = tokens.shape[1]
    _build_kernel[(bs,)](
        logp,
        ids,
        root,
        tokens,
        parents,
        depths,
        L=length,
        K=width,
        N=rows,
        SPINE=spine,
        BLOCK=max(triton.next_power_of_2(rows), 32),
        num_warps=1,
    )


def build_tree(
    logp: torch.Tensor,
    ids: torch.Tensor,
    root: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    depths: torch.Tensor,
    spine: bool,
) -> None:
    (kernel if logp.is_cuda else reference)(logp, ids, root, tokens, parents, depths, spine)
