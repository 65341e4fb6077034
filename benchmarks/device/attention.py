"""The attention of verified rows on a GPU: against its reference, then timed beside SGLang's prefill kernel.

PYTHONPATH=<overlay> python attention.py check [quick]     exits 1 on a difference
PYTHONPATH=<overlay>:<SGLang> python attention.py time     one layer, by context
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import torch
from ddops_overlay.ddtree.ops import tree_attention, tree_mask
from ddops_overlay.ddtree.ops.attention_tile import Tile
from ddops_overlay.ddtree.ops.attention_tile import tile_of as tile_of_capability
from kernels import DEVICE, microseconds, say

Shape = tuple[int, int, int, int]
MLA, GQA = (16, 1, 576, 512), (32, 8, 128, 128)  # heads, KV heads, width of q and k, of v
# SGLang's for an H200
STOCK = {MLA: Tile(512, 64, 512, 32, 64, 8), GQA: Tile(128, 0, 128, 128, 64, 8)}
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 3e-3}  # of values of about 1
BEYOND_L2 = 200 << 20  # bytes of pools in turn: a model's layers have each their own


def rows_of(
    shape: Shape, prefixes: list[int], width: int, dtype: torch.dtype, pool: torch.dtype | None = None
) -> tuple[Any, ...]:
    """Inputs of tree_attention on the GPU, on random trees; MLA's values are the front of its keys."""
    heads, kv, dq, dv = shape
    rows, lens = len(prefixes) * width, torch.tensor(prefixes, device=DEVICE)
    q, k = (torch.randn((rows, n, dq), device=DEVICE).to(dtype) for n in (heads, kv))
    v = (k[..., :dv] if kv == 1 else torch.randn_like(k)).contiguous()
    k_pool, v_pool = pools_of(shape, sum(prefixes), pool or dtype)
    parents = [[-1, *(int(torch.randint(0, node, ())) for node in range(1, width))] for _ in prefixes]
    starts = torch.cat([lens.new_zeros(1), (width * (lens + width)).cumsum(0)])
    mask = torch.zeros(int(starts[-1]), dtype=torch.uint8, device=DEVICE)
    tree_mask.kernel(torch.tensor(parents, dtype=torch.int32, device=DEVICE), lens, starts, mask, width)
    kv_indptr = torch.cat([lens.new_zeros(1), lens.cumsum(0)]).to(torch.int32)
    slots = torch.randperm(sum(prefixes), device=DEVICE)
    out = torch.empty((rows, heads, dv), dtype=dtype, device=DEVICE)
    return q, k, v, out, k_pool, v_pool, kv_indptr, slots, mask, starts, width, dq**-0.5


def pools_of(shape: Shape, slots: int, dtype: torch.dtype) -> tuple[Any, Any]:
    _, kv, dq, dv = shape
    k_pool = torch.randn((slots + 7, kv, dq), device=DEVICE).to(dtype)
    return k_pool, k_pool[..., :dv] if kv == 1 else torch.randn((slots + 7, kv, dv), device=DEVICE).to(dtype)


def processors() -> int:
    return torch.cuda.get_device_properties(DEVICE).multi_processor_count


def tile_of(stock: Tile) -> Tile:
    return tile_of_capability(stock, torch.cuda.get_device_capability()[0])


def same(what: str, found: Any, expected: Any, tolerance: float) -> None:
    worst = float((found.float() - expected.float()).abs().max())
    if not worst <= tolerance:
        say(f"DIFFERENT {what}: {worst}")
        sys.exit(1)


def check(quick: bool) -> None:
    torch.manual_seed(0)
    prefixes: list[list[int]] = [[1], [300, 5, 129], *([[40] * 8] if quick else [[1500] * 8, [9000, 31]])]
    widths = (9, 65) if quick else (2, 9, 13, 17, 33, 65, 128)
    dtypes = [(dtype, dtype) for dtype in TOLERANCE] + [(torch.bfloat16, torch.float8_e4m3fn)]
    cases = 0
    for (shape, stock), (dtype, pool), prefix, width in itertools.product(STOCK.items(), dtypes, prefixes, widths):
        inputs = rows_of(shape, prefix, width, dtype, pool)
        # a sanitizer would follow torch's kernels, too
        plain = [x.to("cpu" if quick else DEVICE) if isinstance(x, torch.Tensor) else x for x in inputs]
        tree_attention.reference(*plain[:4], plain[4].to(dtype), plain[5].to(dtype), *plain[6:])
        expected = plain[3].to(DEVICE, copy=True)
        inputs[3].fill_(float("nan"))
        tree_attention.kernel(*inputs, tile_of(stock), processors())
        same(f"{shape} {dtype} pool {pool} {prefix} {width}", inputs[3], expected, TOLERANCE[dtype])
        cases += 1
    if not quick:
        check_far()
    torch.cuda.synchronize()
    say(f"attention equals its reference in {cases} cases")


def check_far() -> None:
    """A prefix at the end of an MLA pool of 4.2 million slots."""
    q, k, v, out, near, _, kv_indptr, slots, *rest = rows_of(MLA, [300], 9, torch.bfloat16)
    expected = out.clone()
    tree_attention.reference(q, k, v, expected, near, near[..., :512], kv_indptr, slots, *rest)
    pool = torch.zeros((4_200_000, 1, 576), dtype=torch.bfloat16, device=DEVICE)
    pool[-len(near) :] = near
    slots = slots + len(pool) - len(near)
    inputs = (q, k, v, out, pool, pool[..., :512], kv_indptr, slots, *rest)
    tree_attention.kernel(*inputs, tile_of(STOCK[MLA]), processors())
    same("far", out, expected, TOLERANCE[torch.bfloat16])


def time() -> None:
    """Of one layer; the pools take turns, so that the L2 cache holds no more of them than in a model."""
    from sglang.kernels.ops.attention.extend_attention import (
        _get_block_sizes_for_extend_attention,
        extend_attention_fwd,
    )

    torch.manual_seed(0)
    for name, shape in (("MLA", MLA), ("GQA", GQA)):
        tile = tile_of(Tile(*_get_block_sizes_for_extend_attention(*shape[2:])))
        widths = ((1, 9), (1, 17), (1, 33), (1, 65), (8, 9), (8, 17), (8, 65))
        for (bs, width), prefix in itertools.product(widths, (300, 2000, 8000, 32000)):
            first = rows_of(shape, [prefix] * bs, width, torch.bfloat16)
            size = first[4].nbytes * (1 if shape == MLA else 2)
            count = min(20, 1 + BEYOND_L2 // size)
            more = [pools_of(shape, prefix * bs, torch.bfloat16) for _ in range(count - 1)]
            qo_indptr = torch.arange(bs + 1, dtype=torch.int32, device=DEVICE) * width
            theirs = torch.empty_like(first[3])
            mine, other = [], []
            for k_pool, v_pool in (first[4:6], *more):
                q, k, v, out, _, _, kv_indptr, slots, mask, starts, _, scale = first
                mine.append((q, k, v, out, k_pool, v_pool, *first[6:], tile, processors()))
                pools = (k_pool, v_pool, qo_indptr, kv_indptr, slots, mask, True, starts, width, 1.0, 1.0, scale)
                other.append((q, k, v, theirs, *pools))
            in_turn, in_turn_too = itertools.cycle(mine), itertools.cycle(other)
            ours = microseconds(lambda a=in_turn: tree_attention.kernel(*next(a)), 20, 15)
            stocks = microseconds(lambda a=in_turn_too: extend_attention_fwd(*next(a)), 10, 15)
            tree_attention.kernel(*mine[0])
            extend_attention_fwd(*other[0])
            same(f"{name} from SGLang's", first[3], theirs, TOLERANCE[torch.bfloat16])
            figures = ", SGLang ".join(f"{median:.1f} us (spread {spread:.1f})" for median, spread in (ours, stocks))
            what = f"{name} batch {bs} N {width} prefix {prefix}"
            say(f"{what}: {figures}, ratio {stocks[0] / ours[0]:.2f}, pools {count}")


if __name__ == "__main__":
    if sys.argv[1] == "time":
        time()
    else:
        check(quick="quick" in sys.argv)
