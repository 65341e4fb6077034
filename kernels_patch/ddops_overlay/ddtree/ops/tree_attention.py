"""Attention of the verified rows, the prefix in parts: each row sees the whole prefix, its ancestors and itself.

    out[t, h] = softmax_j(scale * q[t, h] . k[j, h / G]) v[j, h / G]        j: the prefix, then what the mask shows of N

SGLang verifies with its prefill kernel, in which one block goes through a request's whole prefix, for each head anew:
with a few rows a request most of the GPU waits, the longer the context the more. Here a block takes rows and heads
that share a KV head together, and one part of the prefix; the tree's own rows are a part of their own. Each part
leaves its normalised sum and the logarithm of its weight (Flash-Decoding, Dao et al. 2023, with the rows of SpecInfer's
tree attention, arXiv:2305.09781), and a second kernel adds them up:

    out = sum_s 2^(w_s - max w) o_s / sum_s 2^(w_s - max w)

Where rows and heads alone fill the GPU there is one part, and no second kernel.

Shapes: q [bs * N, H, Dq], k [bs * N, KV, Dq], v [bs * N, KV, Dv] of the tree's rows, out [bs * N, H, Dv]; k_pool
[slots, KV, Dq], v_pool [slots, KV, Dv] by kv_indices [all prefixes] int64 from kv_indptr [bs + 1] int32; mask uint8 in
SGLang's layout from mask_indptr [bs] int64: N rows of prefix + N, of which the last N are read. H = G * KV. The last
dimensions are contiguous. Sums are float32; the number of parts depends on shapes alone, so a graph has it fixed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .attention_tile import MOST_PARTS, Tile, parts_of

_LEAST = 128  # columns of a part, where there are so many: each part has a sum of its own to add up
_LOG2_E = 1.4426950408889634


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    mask: torch.Tensor,
    mask_indptr: torch.Tensor,
    width: int,
    scale: float,
) -> None:
    group = q.shape[1] // k.shape[1]
    for b in range(len(q) // width):
        rows = slice(b * width, (b + 1) * width)
        slots = kv_indices[kv_indptr[b] : kv_indptr[b + 1]].long()
        keys = torch.cat([k_pool[slots].to(k.dtype), k[rows]]).float().repeat_interleave(group, 1)
        values = torch.cat([v_pool[slots].to(v.dtype), v[rows]]).float().repeat_interleave(group, 1)
        start, columns = int(mask_indptr[b]), len(slots) + width
        seen = mask[start : start + width * columns].view(width, columns)[:, len(slots) :].bool()
        seen = torch.cat([seen.new_ones((width, len(slots))), seen], 1)
        scores = torch.einsum("rhd,chd->hrc", q[rows].float(), keys) * scale
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        out[rows] = torch.einsum("hrc,chd->rhd", weights, values).to(out.dtype)


@triton.jit
def _scores(queries, queries_pe, keys, keys_pe, seen, scale, PE: tl.constexpr):
    found = tl.dot(queries, keys)
    if PE > 0:
        found += tl.dot(queries_pe, keys_pe)
    return tl.where(seen, found * scale, float("-inf"))


@triton.jit
def _add(scores, values, peak, total, found):
    """One tile of the online softmax."""
    higher = tl.maximum(peak, tl.max(scores, 1))
    # a row that has seen nothing yet, and sees nothing in this tile
    base = tl.where(higher == float("-inf"), 0.0, higher)
    before = tl.exp2(peak - base)
    weights = tl.exp2(scores - base[:, None])
    total = total * before + tl.sum(weights, 1)
    return higher, total, found * before[:, None] + tl.dot(weights.to(values.dtype), values)


# what grows with the batch is no constant: one compilation serves all captured batches
@triton.jit(do_not_specialize=["all_rows", "parts"])
def _part_kernel(
    q,
    k,
    v,
    k_pool,
    v_pool,
    kv_indptr,
    kv_indices,
    mask,
    mask_indptr,
    out,
    sums,
    weights,
    all_rows,  # of all requests, times heads
    parts,
    scale,  # times log2(e): weights are powers of two
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    k_slot,
    k_slot_head,
    v_slot,
    v_slot_head,
    out_row,
    out_head,
    N: tl.constexpr,
    GROUP: tl.constexpr,
    KV: tl.constexpr,
    LEAST: tl.constexpr,
    DQ: tl.constexpr,
    DV: tl.constexpr,
    D: tl.constexpr,
    PE: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SHARED: tl.constexpr,  # v is the front of k
    ALONE: tl.constexpr,  # one part, which takes the tree's rows along and writes what comes out
):
    b = tl.program_id(1).to(tl.int64) // KV
    kv = tl.program_id(1).to(tl.int64) % KV
    part = tl.program_id(2)
    flat = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.minimum(flat // GROUP, N - 1)
    head = kv * GROUP + flat % GROUP
    to = (b * N + row) * (GROUP * KV) + head
    inside = flat < N * GROUP

    first = tl.load(kv_indptr + b)
    prefix = tl.load(kv_indptr + b + 1) - first
    chunk = tl.maximum(tl.cdiv(tl.cdiv(prefix, parts), COLUMNS) * COLUMNS, LEAST)
    of_prefix = part < parts
    begin = tl.where(of_prefix, part * chunk, 0)
    end = tl.where(of_prefix, tl.minimum(begin + chunk, prefix), 0)
    own = tl.where(of_prefix, 0, N)
    if ALONE:
        own = N
    elif of_prefix & (begin >= prefix):
        tl.store(weights + part * all_rows + to, tl.full((ROWS,), float("-inf"), tl.float32), mask=inside)
        return

    d = tl.arange(0, D)
    pe = D + tl.arange(0, PE if PE > 0 else 16)
    dv = tl.arange(0, BLOCK_DV)
    column = tl.arange(0, COLUMNS)
    in_d = d < DQ
    at = (b * N + row) * q_row + head * q_head
    queries = tl.load(q + at[:, None] + d[None, :], mask=in_d[None, :], other=0.0)
    queries_pe = queries
    if PE > 0:
        queries_pe = tl.load(q + at[:, None] + pe[None, :], mask=(pe < DQ)[None, :], other=0.0)
    peak = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    found = tl.zeros((ROWS, BLOCK_DV), tl.float32)

    for start in range(begin, end, COLUMNS):
        known = start + column < end
        slot = tl.load(kv_indices + first + start + column, mask=known, other=0).to(tl.int64)
        source = k_pool + slot * k_slot + kv * k_slot_head
        keys = tl.load(source[None, :] + d[:, None], mask=known[None, :] & in_d[:, None], other=0.0).to(queries.dtype)
        keys_pe = keys
        if PE > 0:
            keys_pe = tl.load(source[None, :] + pe[:, None], mask=known[None, :] & (pe < DQ)[:, None], other=0.0)
            keys_pe = keys_pe.to(queries.dtype)
        scores = _scores(queries, queries_pe, keys, keys_pe, known[None, :], scale, PE)
        if SHARED:
            values = tl.trans(keys)
        else:
            source = v_pool + slot * v_slot + kv * v_slot_head
            values = tl.load(source[:, None] + dv[None, :], mask=known[:, None] & (dv < DV)[None, :], other=0.0)
            values = values.to(queries.dtype)
        peak, total, found = _add(scores, values, peak, total, found)

    seen_at = mask + tl.load(mask_indptr + b).to(tl.int64) + row * (prefix + N) + prefix
    for start in range(0, own, COLUMNS):
        node = start + column
        known = node < N
        seen = tl.load(seen_at[:, None] + node[None, :], mask=known[None, :], other=0) != 0
        source = k + (b * N + node) * k_row + kv * k_head
        keys = tl.load(source[None, :] + d[:, None], mask=known[None, :] & in_d[:, None], other=0.0)
        keys_pe = keys
        if PE > 0:
            keys_pe = tl.load(source[None, :] + pe[:, None], mask=known[None, :] & (pe < DQ)[:, None], other=0.0)
        scores = _scores(queries, queries_pe, keys, keys_pe, seen, scale, PE)
        source = v + (b * N + node) * v_row + kv * v_head
        values = tl.load(source[:, None] + dv[None, :], mask=known[:, None] & (dv < DV)[None, :], other=0.0)
        peak, total, found = _add(scores, values, peak, total, found)

    found = found / total[:, None]
    inside_dv = inside[:, None] & (dv < DV)[None, :]
    if ALONE:
        at = (b * N + row) * out_row + head * out_head
        tl.store(out + at[:, None] + dv[None, :], found.to(out.dtype.element_ty), mask=inside_dv)
    else:
        tl.store(weights + part * all_rows + to, peak + tl.log2(total), mask=inside)
        tl.store(sums + (part * all_rows + to)[:, None] * DV + dv[None, :], found, mask=inside_dv)


@triton.jit(do_not_specialize=["all_rows", "parts"])
def _merge_kernel(
    sums,
    weights,
    out,
    out_row,
    out_head,
    all_rows,
    parts,
    HEADS: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_PARTS: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64)
    dv = tl.program_id(1) * BLOCK_DV + tl.arange(0, BLOCK_DV)
    part = tl.arange(0, BLOCK_PARTS)
    weight = tl.load(weights + part * all_rows + at, mask=part <= parts, other=float("-inf"))
    has = weight > float("-inf")
    weight = tl.exp2(weight - tl.max(weight, 0))
    # a part that is empty was not written
    found = tl.load(
        sums + (part * all_rows + at)[:, None] * DV + dv[None, :], mask=has[:, None] & (dv < DV)[None, :], other=0.0
    )
    value = tl.sum(found * weight[:, None], 0) / tl.sum(weight, 0)
    to = out + (at // HEADS) * out_row + (at % HEADS) * out_head + dv
    tl.store(to, value.to(out.dtype.element_ty), mask=dv < DV)


def kernel(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    mask: torch.Tensor,
    mask_indptr: torch.Tensor,
    width: int,
    scale: float,
    tile: Tile,
    processors: int,
) -> None:
    """As `reference`, within the rounding of q's dtype."""
    (rows, heads, dq), dv, kv = q.shape, v.shape[2], k.shape[1]
    group, requests = heads // kv, rows // width
    in_block = min(tile.rows, max(16, triton.next_power_of_2(width * group)))
    blocks = triton.cdiv(width * group, in_block)
    parts = parts_of(blocks * kv, requests, processors)
    alone = parts == 1
    sums, weights = out, out
    if not alone:
        sums = torch.empty((parts + 1, rows * heads, dv), dtype=torch.float32, device=q.device)
        weights = torch.empty((parts + 1, rows * heads), dtype=torch.float32, device=q.device)
    strides = (s for tensor in (q, k, v, k_pool, v_pool, out) for s in tensor.stride()[:2])
    _part_kernel[(blocks, requests * kv, 1 if alone else parts + 1)](
        q,
        k,
        v,
        k_pool,
        v_pool,
        kv_indptr,
        kv_indices,
        mask,
        mask_indptr,
        out,
        sums,
        weights,
        rows * heads,
        parts,
        scale * _LOG2_E,
        *strides,
        N=width,
        GROUP=group,
        KV=kv,
        LEAST=_LEAST,
        DQ=dq,
        DV=dv,
        D=tile.d,
        PE=tile.pe,
        BLOCK_DV=tile.dv,
        ROWS=in_block,
        COLUMNS=tile.columns,
        SHARED=k_pool.data_ptr() == v_pool.data_ptr() and tile.d == tile.dv == dv,
        ALONE=alone,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    if alone:
        return
    block_dv = min(tile.dv, 128)
    _merge_kernel[(rows * heads, triton.cdiv(dv, block_dv))](
        sums,
        weights,
        out,
        out.stride(0),
        out.stride(1),
        rows * heads,
        parts,
        HEADS=heads,
        DV=dv,
        BLOCK_PARTS=MOST_PARTS + 1,
        BLOCK_DV=block_dv,
        num_warps=4,
    )
