"""DDTREE's kernels on a GPU: against their references on random trees, then timed inside CUDA graphs.

PYTHONPATH=<overlay> python kernels.py check     exits 1 on a difference
PYTHONPATH=<overlay> python kernels.py time
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from ddops_overlay.ddtree.ops import build_tree, compact_kv, top_tokens, tree_mask, verify_rows, walk

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
    torch.cuda.synchronize()
    say(f"kernels equal their references in {cases} cases")


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


if __name__ == "__main__":
    if sys.argv[1] == "time":
        time()
    else:
        check(quick="quick" in sys.argv)
