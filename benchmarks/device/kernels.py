"""DDTREE's kernels on a GPU: against their references on random trees, then timed inside CUDA graphs.

PYTHONPATH=<overlay> python kernels.py check     exits 1 on a difference
PYTHONPATH=<overlay> python kernels.py time
PYTHONPATH=<overlay>:<SGLang> python kernels.py attention     against SGLang's prefill kernel, by context
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from ddops_overlay.ddtree.ops import (
    attention_tile,
    build_tree,
    compact_kv,
    top_tokens,
    tree_attention,
    tree_mask,
    verify_rows,
    walk,
)

DEVICE = "cuda"
BUDGETS = (8, 12, 16, 32, 64)
BATCHES = (1, 2, 3, 5, 8)
LENGTH, WIDTH = 7, 8


def say(*what: Any) -> None:
    print(*what, flush=True)  # noqa: T201 - a script that reports to its caller


def draft(bs: int, coarse: bool) -> tuple[Any, Any, Any]:
    logits = torch.randn((bs, LENGTH, 500)) * 2
    if coarse:
        logits = logits.round()
    logp, ids = torch.log_softmax(logits, -1).sort(dim=-1, descending=True, stable=True)
    return logp[..., :WIDTH].contiguous(), ids[..., :WIDTH].contiguous(), torch.randint(0, 500, (bs,))


def tree(bs: int, budget: int, device: str) -> tuple[Any, Any, Any]:
    shape = (bs, budget + 1)
    return tuple(torch.zeros(shape, dtype=t, device=device) for t in (torch.int64, torch.int32, torch.int32))


def same(name: str, found: Any, expected: Any) -> None:
    if not torch.equal(found.cpu(), expected):
        say("DIFFERENT", name, found.cpu().flatten()[:20].tolist(), expected.flatten()[:20].tolist())
        sys.exit(1)


def check_step(bs: int, budget: int, coarse: bool, spine: bool) -> None:
    """One step on random data: top tokens, tree, rows, mask, walk, each against its reference."""
    rows = budget + 1
    logits = (torch.randn((bs * LENGTH, 20000)) * 3).to(torch.bfloat16)
    for part, want in zip(
        top_tokens.kernel(logits.cuda(), WIDTH)[:2], top_tokens.reference(logits, WIDTH)[:2], strict=True
    ):
        same("top_tokens", part, want)
    logp, ids, root = draft(bs, coarse)
    here, there = tree(bs, budget, "cpu"), tree(bs, budget, DEVICE)
    build_tree.reference(logp, ids, root, *here, spine)
    build_tree.kernel(logp.cuda(), ids.cuda(), root.cuda(), *there, spine)
    for found, want in zip(there, here, strict=True):
        same("build_tree", found, want)
    tokens, parents, depths = here
    prefix = torch.randint(1, 900, (bs,))
    req = torch.randperm(20)[:bs]
    table = torch.randperm(20 * 1000, dtype=torch.int32).view(20, 1000)
    out = [torch.zeros((bs, rows), dtype=torch.int64) for _ in range(2)]
    gpu = [x.cuda() for x in out]
    verify_rows.reference(depths, prefix, req, table, *out)
    verify_rows.kernel(depths.cuda(), prefix.cuda(), req.cuda(), table.cuda(), *gpu)
    same("positions", gpu[0], out[0])
    same("slots", gpu[1], out[1])
    sizes = rows * (prefix + rows)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    mask = torch.ones(int(starts[-1]), dtype=torch.uint8)
    on_gpu = mask.cuda()
    tree_mask.reference(parents, prefix, starts, mask, LENGTH)
    tree_mask.kernel(parents.cuda(), prefix.cuda(), starts.cuda(), on_gpu, LENGTH)
    same("tree_mask", on_gpu, mask)
    # a target that says a child's token three times out of four
    target = torch.randint(0, 500, (bs, rows))
    for b in range(bs):
        for node in range(1, rows):
            if torch.rand(()) < 0.75:
                target[b, parents[b, node]] = tokens[b, node]
    last = prefix + torch.randint(1, 12, (bs,))
    last[torch.rand(bs) < 0.2] = -1
    stops = torch.randint(0, 500, (bs, 2))
    inputs = (target, tokens, parents, prefix, last, stops)
    path, on_device = walk.Walk.empty(bs, LENGTH + 1, "cpu"), walk.Walk.empty(bs, LENGTH + 1, DEVICE)
    walk.reference(*inputs, path)
    walk.kernel(*(x.cuda() for x in inputs), on_device)
    for found, want in zip(on_device, path, strict=True):
        same("walk", found, want)
    check_move(out[1], path)


def check_move(slots: Any, path: Any) -> None:
    for buffers in (
        [torch.randn((20000, 3, 64)).to(torch.bfloat16) for _ in range(4)],
        [torch.randn((20000, 1, 576)).to(torch.bfloat16)],
    ):
        gpu = [b.cuda() for b in buffers]
        compact_kv.reference(buffers, slots, path.path, path.lens)
        compact_kv.kernel(compact_kv.Table.of(gpu), slots.cuda(), path.path.cuda(), path.lens.cuda())
        for found, want in zip(gpu, buffers, strict=True):
            same("compact_kv", found, want)


def check_far() -> None:
    """Offsets beyond 2^31 elements: an MLA pool of 4.2 million slots."""
    pool = torch.zeros((4_200_000, 1, 576), dtype=torch.bfloat16, device=DEVICE)
    slots = torch.arange(4_199_000, 4_199_009, device=DEVICE)[None]
    pool[slots[0]] = torch.arange(9, dtype=torch.bfloat16, device=DEVICE)[:, None, None]
    path = torch.tensor([[0, 3, 5, 8, 0, 0, 0, 0]], device=DEVICE)
    compact_kv.kernel(compact_kv.Table.of([pool]), slots, path, torch.tensor([4], dtype=torch.int32, device=DEVICE))
    same("far", pool[slots[0], 0, 575].float(), torch.tensor([0.0, 3, 5, 8, 4, 5, 6, 7, 8]))
    if int(pool[:4_199_000].count_nonzero()) or int(pool[4_199_009:].count_nonzero()):
        say("DIFFERENT far: something else was written")
        sys.exit(1)


MLA, GQA = (16, 1, 576, 512), (32, 8, 128, 128)  # heads, KV heads, width of q and k, of v
BF16 = 2e-2  # of values of about 1
# SGLang's for an H200
STOCK = {MLA: attention_tile.Tile(512, 64, 512, 32, 64, 8), GQA: attention_tile.Tile(128, 0, 128, 128, 64, 8)}


def rows_of(shape: tuple[int, ...], prefixes: list[int], width: int, dtype: torch.dtype) -> tuple[Any, ...]:
    """Inputs of tree_attention on the GPU, on random trees; MLA's values are the front of its keys."""
    heads, kv, dq, dv = shape
    rows, lens = len(prefixes) * width, torch.tensor(prefixes, device=DEVICE)
    q, k = (torch.randn((rows, n, dq), device=DEVICE).to(dtype) for n in (heads, kv))
    v = (k[..., :dv] if kv == 1 else torch.randn_like(k)).contiguous()
    k_pool = torch.randn((sum(prefixes) + 7, kv, dq), device=DEVICE).to(dtype)
    v_pool = k_pool[..., :dv] if kv == 1 else torch.randn_like(k_pool)
    parents = [[-1, *(int(torch.randint(0, node, ())) for node in range(1, width))] for _ in prefixes]
    starts = torch.cat([lens.new_zeros(1), (width * (lens + width)).cumsum(0)])
    mask = torch.zeros(int(starts[-1]), dtype=torch.uint8, device=DEVICE)
    tree_mask.kernel(torch.tensor(parents, dtype=torch.int32, device=DEVICE), lens, starts, mask, width)
    kv_indptr = torch.cat([lens.new_zeros(1), lens.cumsum(0)]).to(torch.int32)
    slots = torch.randperm(sum(prefixes), device=DEVICE)
    out = torch.empty((rows, heads, dv), dtype=dtype, device=DEVICE)
    return q, k, v, out, k_pool, v_pool, kv_indptr, slots, mask, starts, width, dq**-0.5


def processors() -> int:
    return torch.cuda.get_device_properties(DEVICE).multi_processor_count


def tile_of(stock: attention_tile.Tile) -> attention_tile.Tile:
    return attention_tile.tile_of(stock, torch.cuda.get_device_capability()[0])


def check_attention(quick: bool) -> int:
    """bf16 and fp16 against the reference; returns the number of cases."""
    cases = 0
    for shape, stock in STOCK.items():
        tile = tile_of(stock)
        for dtype, tolerance in ((torch.bfloat16, BF16), (torch.float16, 3e-3)):
            for prefixes in ([1], [300, 5, 129], [1500] * 8) if quick else ([1], [300, 5, 129], [1500] * 8, [9000, 31]):
                for width in (9, 65) if quick else (2, 9, 13, 17, 33, 65, 128):
                    inputs = rows_of(shape, prefixes, width, dtype)
                    expected = inputs[3].clone()
                    tree_attention.reference(*inputs[:3], expected, *inputs[4:])
                    inputs[3].fill_(float("nan"))
                    tree_attention.kernel(*inputs, tile, processors())
                    worst = float((inputs[3].float() - expected.float()).abs().max())
                    if not worst <= tolerance:
                        say(f"DIFFERENT tree_attention {shape} {dtype} {prefixes} {width}: {worst}")
                        sys.exit(1)
                    cases += 1
    return cases


def check_far_attention() -> None:
    """A prefix at the end of an MLA pool of 4.2 million slots."""
    q, k, v, out, near, _, kv_indptr, slots, *rest = rows_of(MLA, [300], 9, torch.bfloat16)
    expected = out.clone()
    tree_attention.reference(q, k, v, expected, near, near[..., :512], kv_indptr, slots, *rest)
    pool = torch.zeros((4_200_000, 1, 576), dtype=torch.bfloat16, device=DEVICE)
    pool[-len(near) :] = near
    slots = slots + len(pool) - len(near)
    inputs = (q, k, v, out, pool, pool[..., :512], kv_indptr, slots, *rest)
    tree_attention.kernel(*inputs, tile_of(STOCK[MLA]), processors())
    worst = float((out.float() - expected.float()).abs().max())
    if not worst <= BF16:
        say(f"DIFFERENT far attention: {worst}")
        sys.exit(1)


def check(quick: bool) -> None:
    torch.manual_seed(0)
    cases = 0
    for budget in BUDGETS:
        for bs in (1, 8) if quick else BATCHES:
            for coarse in (False, True):
                for spine in (True, False):
                    check_step(bs, budget, coarse, spine)
                    cases += 1
    if not quick:
        check_far()
        check_far_attention()
    attended = check_attention(quick)
    torch.cuda.synchronize()
    say(f"kernels equal their references in {cases} cases, attention in {attended}")


def microseconds(function: Callable[[], Any], repeats: int = 50, samples: int = 30) -> tuple[float, float]:
    """Median and spread (10th to 90th percentile) of one call inside a graph of many."""
    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            function()
    graph.replay()
    found = []
    for _ in range(samples):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) * 1e3 / repeats)
    deciles = statistics.quantiles(found, n=10)
    return statistics.median(found), deciles[-1] - deciles[0]


def time(prefix_len: int = 2000) -> None:
    torch.manual_seed(0)
    for vocabulary in (49152, 163840):
        for bs in (1, 8):
            logits = torch.randn((bs * LENGTH, vocabulary), device=DEVICE).to(torch.bfloat16)
            for k in (4, 8, 16):
                median, spread = microseconds(lambda x=logits, k=k: top_tokens.kernel(x, k), 20)
                say(f"top_tokens V={vocabulary} rows={bs * LENGTH} K={k}: {median:.1f} us (spread {spread:.1f})")
            reference, _ = microseconds(lambda x=logits: torch.topk(torch.log_softmax(x.float(), -1), 8), 5)
            say(f"  torch.log_softmax + topk K=8: {reference:.1f} us")
    for budget in BUDGETS:
        for bs in BATCHES:
            rows = budget + 1
            logp, ids, root = (x.cuda() for x in draft(bs, False))
            nodes = tree(bs, budget, DEVICE)
            prefix = torch.full((bs,), prefix_len, device=DEVICE)
            req = torch.arange(bs, device=DEVICE)
            table = torch.randint(0, 9000, (bs, prefix_len + 200), dtype=torch.int32, device=DEVICE)
            out = [torch.zeros((bs, rows), dtype=torch.int64, device=DEVICE) for _ in range(2)]
            starts = torch.arange(bs + 1, device=DEVICE) * rows * (prefix_len + rows)
            mask = torch.zeros(int(starts[-1]), dtype=torch.uint8, device=DEVICE)
            target = torch.randint(0, 500, (bs, rows), device=DEVICE)
            stops = torch.full((bs, 8), -1, device=DEVICE)
            paths = walk.Walk.empty(bs, LENGTH + 1, DEVICE)
            steps = {
                "build": lambda a=(logp, ids, root, *nodes): build_tree.kernel(*a, True),
                "rows": lambda a=(nodes[2], prefix, req, table, *out): verify_rows.kernel(*a),
                "mask": lambda a=(nodes[1], prefix, starts, mask): tree_mask.kernel(*a, LENGTH),
                "walk": lambda a=(target, nodes[0], nodes[1], prefix, prefix + 1000, stops, paths): walk.kernel(*a),
            }
            found = {name: microseconds(step) for name, step in steps.items()}
            total = sum(found[name][0] for name in ("build", "rows", "mask"))
            parts = "  ".join(f"{name} {median:.1f} (spread {spread:.1f})" for name, (median, spread) in found.items())
            say(f"budget {budget} batch {bs}: build + rows + mask {total:.1f} us   {parts}")


def attention() -> None:
    """Time of one layer's attention of a verification, beside SGLang's kernel on the same inputs."""
    from sglang.kernels.ops.attention.extend_attention import (
        _get_block_sizes_for_extend_attention,
        extend_attention_fwd,
    )

    torch.manual_seed(0)
    for name, shape in (("MLA", MLA), ("GQA", GQA)):
        tile = tile_of(attention_tile.Tile(*_get_block_sizes_for_extend_attention(*shape[2:])))
        for bs, width in ((1, 9), (1, 17), (1, 33), (1, 65), (8, 9), (8, 17), (8, 65)):
            for prefix in (300, 2000, 8000, 32000):
                inputs = rows_of(shape, [prefix] * bs, width, torch.bfloat16)
                q, k, v, out, k_pool, v_pool, kv_indptr, slots, mask, starts, _, scale = inputs
                qo_indptr = torch.arange(bs + 1, dtype=torch.int32, device=DEVICE) * width
                theirs = torch.empty_like(out)
                stock = (q, k, v, theirs, k_pool, v_pool, qo_indptr, kv_indptr, slots, mask, True, starts, width)
                whole = (*inputs, tile, processors())
                mine = microseconds(lambda a=whole: tree_attention.kernel(*a), 10, 15)
                other = microseconds(lambda a=(*stock, 1.0, 1.0, scale): extend_attention_fwd(*a), 5, 15)
                off = float((out.float() - theirs.float()).abs().max())
                what = f"{name} batch {bs} N {width} prefix {prefix}"
                ours, stocks = (f"{median:.1f} us (spread {spread:.1f})" for median, spread in (mine, other))
                say(f"{what}: {ours}, SGLang {stocks}, ratio {other[0] / mine[0]:.2f}; apart {off:.4f}")
                if not off <= BF16:
                    sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1] == "time":
        time()
    elif sys.argv[1] == "attention":
        attention()
    else:
        check(quick="quick" in sys.argv)
