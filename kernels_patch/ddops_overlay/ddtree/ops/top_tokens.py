"""The K likeliest tokens of each row of logits and their log-probabilities over the whole vocabulary.

    logp[r, k] = logits[r, ids[r, k]] - logsumexp(logits[r, :])        rows sorted, descending

Equal logits: the lower token id first (bf16 logits are often equal, and every rank must choose the same).
NaN counts as -inf. With a vocabulary in shards each rank finds its own K, and `merge` makes one list of all:
the parts are (values, ids, peak, mass), where logsumexp = peak + log(mass).

Source: the DDTree paper (arXiv 2604.12989, section 3), which scores over the full vocabulary, not over the K.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

_CHUNK = 4096


class Part(NamedTuple):
    """values [R, K] float32 logits, ids [R, K] int64, peak and mass [R] float32."""

    values: torch.Tensor
    ids: torch.Tensor
    peak: torch.Tensor
    mass: torch.Tensor

    def logp(self) -> torch.Tensor:
        """[R, K] float32."""
        return self.values - (self.peak + self.mass.log())[:, None]


def reference(logits: torch.Tensor, k: int, first_id: int = 0) -> Part:
    """logits [R, V] of any float type; first_id is the token id of column 0."""
    values = logits.float().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    ordered, ids = values.sort(dim=-1, descending=True, stable=True)
    peak = ordered[:, 0]
    return Part(ordered[:, :k], ids[:, :k] + first_id, peak, (values - peak[:, None]).exp().sum(-1))


def merge_reference(parts: Part, k: int) -> Part:
    """Parts of C ranks in the order of their vocabulary: values, ids [C, R, K]; peak, mass [C, R]."""
    values = parts.values.transpose(0, 1).flatten(1)
    ids = parts.ids.transpose(0, 1).flatten(1)
    ordered, places = values.sort(dim=-1, descending=True, stable=True)
    peak = parts.peak.max(0).values
    mass = (parts.mass * (parts.peak - peak).exp()).sum(0)
    return Part(ordered[:, :k], ids.gather(1, places[:, :k]), peak, mass)


@triton.jit
def _chunk_kernel(
    logits, values, ids, peaks, masses, stride, vocabulary, first_id, chunks, K: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    cols = tl.arange(0, BLOCK)
    token = chunk * BLOCK + cols
    x = tl.load(logits + row * stride + token, mask=token < vocabulary, other=-float("inf")).to(tl.float32)
    x = tl.where(x == x, x, -float("inf"))
    peak = tl.max(x, axis=0)
    safe = tl.maximum(peak, -3.0e38)
    at = row * chunks + chunk
    tl.store(peaks + at, safe)
    tl.store(masses + at, tl.sum(tl.exp(x - safe), axis=0))
    for k in range(K):
        value, place = tl.max(x, axis=0, return_indices=True, return_indices_tie_break_left=True)
        tl.store(values + at * K + k, value)
        tl.store(ids + at * K + k, (chunk * BLOCK + place + first_id).to(tl.int64))
        x = tl.where(cols == place, -float("inf"), x)


@triton.jit
def _merge_kernel(
    values,
    ids,
    peaks,
    masses,
    out_values,
    out_ids,
    out_peak,
    out_mass,
    row_stride,
    part_stride,
    parts,
    K: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # strides count parts: the k-th value of part p of a row lies at (row * row_stride + p * part_stride) * K + k
    row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, PARTS)
    at = row * row_stride + part * part_stride
    peak = tl.load(peaks + at, mask=part < parts, other=-float("inf"))
    mass = tl.load(masses + at, mask=part < parts, other=0.0)
    top = tl.max(peak, axis=0)
    tl.store(out_peak + row, top)
    tl.store(out_mass + row, tl.sum(mass * tl.exp(peak - top), axis=0))

    slot = tl.arange(0, BLOCK)
    where = (row * row_stride + (slot // K) * part_stride) * K + slot % K
    x = tl.load(values + where, mask=slot < parts * K, other=-float("inf"))
    token = tl.load(ids + where, mask=slot < parts * K, other=0)
    for k in range(K):
        value, place = tl.max(x, axis=0, return_indices=True, return_indices_tie_break_left=True)
        tl.store(out_values + row * K + k, value)
        tl.store(out_ids + row * K + k, tl.sum(tl.where(slot == place, token, 0), axis=0))
        x = tl.where(slot == place, -float("inf"), x)


def kernel(logits: torch.Tensor, k: int, first_id: int = 0) -> Part:
    """As `reference`; logits with contiguous rows."""
    rows, vocabulary = logits.shape
    chunks = triton.cdiv(vocabulary, _CHUNK)
    parts = _empty((rows, chunks), k, logits.device)
    _chunk_kernel[(rows, chunks)](
        logits, *parts, logits.stride(0), vocabulary, first_id, chunks, K=k, BLOCK=_CHUNK, num_warps=8
    )
    return _merged(parts, rows, chunks, k, row_stride=chunks, part_stride=1)


def merge_kernel(parts: Part, k: int) -> Part:
    """As `merge_reference`."""
    ranks, rows = parts.peak.shape
    return _merged(parts, rows, ranks, k, row_stride=1, part_stride=rows)


def _merged(parts: Part, rows: int, count: int, k: int, row_stride: int, part_stride: int) -> Part:
    out = _empty((rows,), k, parts.values.device)
    width = triton.next_power_of_2(count * k)
    _merge_kernel[(rows,)](
        *parts,
        *out,
        row_stride,
        part_stride,
        count,
        K=k,
        PARTS=triton.next_power_of_2(count),
        BLOCK=width,
        num_warps=1 if width <= 256 else 4,
    )
    return out


def _empty(shape: tuple[int, ...], k: int, device: torch.device) -> Part:
    return Part(
        torch.empty((*shape, k), dtype=torch.float32, device=device),
        torch.empty((*shape, k), dtype=torch.int64, device=device),
        torch.empty(shape, dtype=torch.float32, device=device),
        torch.empty(shape, dtype=torch.float32, device=device),
    )


def top_tokens(logits: torch.Tensor, k: int, first_id: int = 0) -> Part:
    return kernel(logits, k, first_id) if logits.is_cuda else reference(logits, k, first_id)


def merge(parts: Part, k: int) -> Part:
    return merge_kernel(parts, k) if parts.values.is_cuda else merge_reference(parts, k)
