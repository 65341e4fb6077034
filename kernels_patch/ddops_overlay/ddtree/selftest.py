"""The proof at start-up, in the journal: the server's own graphs verify a tree as a tree.

A prompt is prefilled, then a tree on it is verified twice, the second time with one token of one node changed:

    siblings   the rows that do not descend from that node must stay as they were; its child must change
    root       the root's row must be what the prefill said at the same place
    replay     the graph must say what the same pass says without it
    commit     the end of the graph must keep what is kept behind a pass (selftest_commit.py)
    padded     all of it again in a batch that its graph pads, beside other requests

A graph without its mask, with a stale one or one of another width fails these, whatever the cause.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode

from ..processes import audited
from .ops.tree_mask import visible
from .ops.verify_rows import verify_rows
from .rules import RuleBroken, require
from .selftest_commit import committed
from .verify import DDTreeVerifyInput

_PREFIX = 12
# rounding, far below what a wrong mask does: of the change that a changed ancestor makes, of the spread of the logits
_LEAK = 0.125
_ROOT = 0.05


def run(worker: Any) -> None:
    """Says the evidence in the journal; a broken rule ends the process (78)."""
    evidence: dict[str, Any] = {
        "budget": worker.settings.budget,
        "width": worker.width,
        "block": worker.block_size,
        "topk": worker.settings.topk,
        "spine": worker.settings.spine,
        "audit": worker.settings.audit,
        "graphs": worker.graphs_are_on,
    }
    problem = None
    try:
        sizes = _sizes(worker)
        evidence["batches"] = {str(bs): _examine(worker, bs) for bs in sizes}
        worker.audit.check_guards()
    except RuleBroken as error:
        problem = str(error)
    audited(worker.ps.tp_rank, evidence, problem)


def _sizes(worker: Any) -> list[int]:
    """One request, and the smallest batch that a graph pads."""
    room = worker.trees.rows - 1
    if not worker.graphs_are_on:
        return [1, 2][:room]
    captured = worker.model_runner.decode_cuda_graph_runner.capture_bs
    padded = [bs for bs in range(2, max(captured)) if bs not in captured and bs <= room]
    return [1, *padded[:1]]


def _examine(worker: Any, bs: int) -> dict[str, float]:
    runner = worker.model_runner
    pool, allocator = runner.req_to_token_pool, runner.token_to_kv_pool_allocator
    length = _PREFIX + worker.width
    slots = allocator.alloc(bs * length)
    require(slots is not None, "selftest-room", f"no {bs * length} KV slots for the test at start-up")
    rows = torch.arange(1, bs + 1, device=worker.device)
    saved = pool.req_to_token[rows].clone()
    pool.req_to_token[rows, :length] = slots.view(bs, length).to(pool.req_to_token.dtype)
    try:
        with torch.inference_mode():
            return _compare(worker, bs, rows)
    finally:
        pool.req_to_token[rows] = saved
        allocator.free(slots)


def _compare(worker: Any, bs: int, rows: torch.Tensor) -> dict[str, float]:
    vocabulary = worker.model_runner.model_config.vocab_size
    # each request its own prompt; a root that the prefill saw too
    prompt = (torch.arange(bs * (_PREFIX + 1), device=worker.device) * 37 + 101) % vocabulary
    prompt = prompt.view(bs, _PREFIX + 1)
    plain = _prefill(worker, prompt, rows)
    _plant(worker, bs, prompt[:, -1])
    first = _verify(worker, bs, rows)
    tree = worker.trees.of(bs)
    tree.tokens[:, 1] = (tree.tokens[:, 1] + vocabulary // 2) % vocabulary
    second = _verify(worker, bs, rows)
    eager = _without_graphs(worker, bs, rows) if worker.graphs_are_on else second

    changed = (second - first).abs().amax(-1)
    below = visible(tree.parents, worker.block_size - 1)[:, :, 1]
    effect = changed.masked_fill(~below, torch.inf).amin()
    leak = changed.masked_fill(below, 0).amax()
    root = ((first[:, 0] - plain).abs().amax(-1) / (plain.amax(-1) - plain.amin(-1))).amax()
    replay = (second - eager).abs().amax()
    found = {"effect": float(effect), "leak": float(leak), "root": float(root), "replay": float(replay)}
    require(found["effect"] > 0, "ancestor-seen", f"a row did not see its ancestor ({bs} requests): {found}")
    require(found["leak"] <= _LEAK * found["effect"], "sibling-unseen", f"a row saw another branch: {found}")
    require(found["replay"] <= _LEAK * found["effect"], "replay-is-eager", f"a graph says something else: {found}")
    require(found["root"] <= _ROOT, "root-row", f"the root's row is not what plain decoding says: {found}")
    if worker.graphs_are_on:
        found["commit"] = committed(worker, bs, second, lambda: _pass(worker, bs, rows))
    return {name: round(value, 6) for name, value in found.items()}


def _plant(worker: Any, bs: int, roots: torch.Tensor) -> None:
    """Two branches from the root, the first as deep as the block allows and the budget holds; the rest siblings."""
    tree = worker.trees.of(bs)
    tokens, parents, depths = tree
    deep = min(worker.block_size - 1, worker.width - 2)
    node = torch.arange(worker.width, device=worker.device)
    chain = (node >= 1) & (node <= deep)
    tokens.copy_((node * 53 + 211) % worker.model_runner.model_config.vocab_size)
    tokens[:, 0] = roots
    parents.copy_(torch.where(chain, node - 1, 0))
    parents[:, 0] = -1
    depths.copy_(torch.where(chain, node, 1))
    depths[:, 0] = 0


def _prefill(worker: Any, prompt: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Logits [bs, V] behind the whole prompt; its KV lies in the requests' first slots."""
    bs, length = prompt.shape
    runner = worker.model_runner
    lens = torch.full((bs,), length, dtype=torch.int32, device=prompt.device)
    positions = torch.arange(length, device=prompt.device).repeat(bs)
    forward_batch = ForwardBatch(
        forward_mode=ForwardMode.EXTEND,
        batch_size=bs,
        input_ids=prompt.flatten(),
        req_pool_indices=rows,
        seq_lens=lens.long(),
        seq_lens_cpu=lens.cpu().long(),
        seq_lens_sum=bs * length,
        out_cache_loc=runner.req_to_token_pool.req_to_token[rows, :length].flatten().long(),
        positions=positions,
        extend_num_tokens=bs * length,
        extend_seq_lens=lens,
        extend_prefix_lens=torch.zeros_like(lens),
        extend_start_loc=torch.arange(bs, dtype=torch.int32, device=prompt.device) * length,
        extend_prefix_lens_cpu=[0] * bs,
        extend_seq_lens_cpu=[length] * bs,
        capture_hidden_mode=CaptureHiddenMode.FULL,
        spec_algorithm=runner.spec_algorithm,
        **_mrope(runner, positions),
    )
    return runner.forward(forward_batch).logits_output.next_token_logits.float().clone()


def _verify(worker: Any, bs: int, rows: torch.Tensor) -> torch.Tensor:
    """Logits [bs, N, V] of the trees in the worker's buffers."""
    return _pass(worker, bs, rows).next_token_logits.float().clone().view(bs, worker.width, -1)


def _pass(worker: Any, bs: int, rows: torch.Tensor) -> Any:
    """SGLang's output for the trees in the worker's buffers, by a graph where graphs are on."""
    runner, tree = worker.model_runner, worker.trees.of(bs)
    positions, slots = worker.trees.positions[:bs], worker.trees.slots[:bs]
    prefix = torch.full((bs,), _PREFIX, dtype=torch.int64, device=worker.device)
    verify_rows(tree.depths, prefix, rows, runner.req_to_token_pool.req_to_token, positions, slots)
    verify_input = DDTreeVerifyInput(
        draft_token=tree.tokens.view(-1),
        positions=positions.view(-1),
        draft_token_num=worker.width,
        custom_mask=None if tree.parents.is_cuda else visible(tree.parents, worker.block_size - 1).flatten(),
        tree=tree,
    )
    forward_batch = ForwardBatch(
        forward_mode=ForwardMode.TARGET_VERIFY,
        batch_size=bs,
        input_ids=tree.tokens.view(-1),
        req_pool_indices=rows,
        seq_lens=prefix,
        seq_lens_cpu=prefix.cpu() + worker.width,
        seq_lens_sum=bs * (_PREFIX + worker.width),
        out_cache_loc=slots.view(-1),
        positions=positions.view(-1),
        capture_hidden_mode=CaptureHiddenMode.FULL,
        spec_algorithm=runner.spec_algorithm,
        spec_info=verify_input,
        **_mrope(runner, positions.view(-1)),
    )
    out = runner.forward(forward_batch)
    worker.audit.after_verify(bs, prefix, bool(out.can_run_graph))
    return out.logits_output


def _without_graphs(worker: Any, bs: int, rows: torch.Tensor) -> torch.Tensor:
    runner = worker.model_runner
    graphs, runner.decode_cuda_graph_runner = runner.decode_cuda_graph_runner, None
    try:
        return _verify(worker, bs, rows)
    finally:
        runner.decode_cuda_graph_runner = graphs


def _mrope(runner: Any, positions: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"mrope_positions": positions.repeat(3, 1)} if runner.model_config.model_is_mrope else {}
