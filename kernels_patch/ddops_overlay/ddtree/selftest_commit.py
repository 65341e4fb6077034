"""The proof at start-up that the end of the target's graph keeps what the same operations keep behind a pass.

The root's last child is given the token that the target says at the root, so every request accepts a path that is no
prefix: a row of the target's KV must move, and the drafter gets two rows. The graph does it; then the pass runs once
more with nobody to commit, and the operations are called one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from .rules import require

# of the largest value: rounding of a product whose batch is padded is far below, another row's values far above
_DIFFERENCE = 0.125


def committed(worker: Any, bs: int, logits: torch.Tensor, run: Callable[[], Any]) -> float:
    """The largest difference of a kept row, of the largest value of its kind.

    logits [bs, N, V] of the trees that stand in the buffers; `run` verifies what stands there and gives SGLang's
    output for the bs requests. Raises RuleBroken.
    """
    batch = _batch(worker, bs)
    tree, root_says = worker.trees.of(bs), logits[:, 0].argmax(-1, keepdim=True)
    others = tree.tokens[:, 1:]
    others.copy_(torch.where(others == root_says, (others + 1) % logits.shape[-1], others))
    tree.tokens[:, -1:] = root_says

    require(worker.commit.in_graph(batch), "commit-in-graph", f"a batch of {bs} is not committed by its graph")
    run()
    by_graph, kept = worker.commit.replayed(bs), _kept(worker, bs)
    last = tree.tokens.shape[1] - 1
    moved = by_graph.path[:, 1] == torch.arange(bs, device=by_graph.path.device) * (last + 1) + last
    require(bool(((by_graph.lens == 2) & moved).all()), "commit-path", f"paths of {by_graph.lens.tolist()} rows, not 2")

    slots = worker.trees.slots[:bs]
    for buffer in worker.kv_buffers():
        require(_same_bytes(buffer[slots[:, 1]], buffer[slots[:, last]]), "kv-moved", "an accepted row is not in front")

    worker.commit.nobody_in_graph()
    output = run()
    untouched = worker.commit.replayed(bs).lens
    require(not bool(untouched.any()), "commit-nobody", f"the graph committed {untouched.tolist()} of nobody's rows")
    for buffer in worker.drafter_kv_buffers():
        buffer[_front(worker, bs)] = 0
    behind = worker.commit.after_pass(batch, output)
    same = all(torch.equal(a, b) for a, b in zip(by_graph, behind, strict=True))
    require(same, "commit-is-eager", "the graph walked another path than the same operation behind the pass")
    difference = max(_difference(a, b) for a, b in zip(kept, _kept(worker, bs), strict=True))
    require(
        difference <= _DIFFERENCE, "commit-is-eager", f"a kept row differs by {difference:.3f} of the largest value"
    )
    return difference


def _batch(worker: Any, bs: int) -> Any:
    """As a batch of the scheduler, greedy and without limits; the drafter's rows of its step."""
    params = SimpleNamespace(max_new_tokens=None, ignore_eos=True, stop_token_ids=None)
    requests = [SimpleNamespace(rid=f"selftest {b}", origin_input_ids=[], sampling_params=params) for b in range(bs)]
    slots, positions = worker.trees.slots[:bs], worker.trees.positions[:bs]
    prefix_lens = positions[:, 0].clone()
    block = worker.block_size
    worker._draft_verify_out_cache_loc_buf[:bs] = slots[:, :block]
    worker._draft_block_positions_buf[:bs] = prefix_lens[:, None] + torch.arange(block, device=slots.device)
    return SimpleNamespace(reqs=requests, seq_lens=prefix_lens, sampling_info=None)


def _front(worker: Any, bs: int) -> torch.Tensor:
    """Slots [bs * 2] of the root and of what was accepted."""
    front: torch.Tensor = worker.trees.slots[:bs, :2].flatten()
    return front


def _kept(worker: Any, bs: int) -> list[torch.Tensor]:
    front = _front(worker, bs)
    return [buffer[front].float() for buffer in (*worker.kv_buffers(), *worker.drafter_kv_buffers())]


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def _difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().amax() / expected.abs().amax().clamp(min=1e-6))
