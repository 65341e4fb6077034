"""What is kept of a verified tree: the same at the end of the target's graph and behind a pass, for the same requests.

A graph cannot be captured here; what is captured is called as SGLang calls it, with a padded batch in fixed buffers.
Graphs themselves are compared on a GPU: benchmarks/device, and at every start of a server (selftest).
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
pytest.importorskip("sglang")
os.environ["SGLANG_USE_CPU_ENGINE"] = "1"

from ddops_overlay.cpu import plan  # noqa: E402

plan.activate()

from ddops_overlay.ddtree.rules import RuleBroken  # noqa: E402
from toy import BLOCK, HIDDEN, VOCABULARY, WIDTH, Worker, request, sampling  # noqa: E402

# node 3 is the root's second child and has a child; the path root, 3, 5 is no prefix
PARENTS = [-1, 0, 1, 0, 2, 3, 0]
SAID = {0: 13, 3: 15, 5: 40}
PADDED = 4


def batch(*requests: Any, **changes: Any) -> Any:
    return SimpleNamespace(
        reqs=list(requests),
        seq_lens=torch.tensor([20 + 30 * b for b in range(len(requests))]),
        sampling_info=sampling(**changes),
    )


def verified(worker: Worker, of: Any) -> tuple[Any, Any]:
    """The trees of all rows of a padded graph, the batch's and those that an older step left; the pass's output."""
    tree = worker.trees.of(PADDED)
    tree.parents.copy_(torch.tensor(PARENTS, dtype=torch.int32))
    tree.tokens.copy_(10 + torch.arange(WIDTH))
    prefix = torch.cat([of.seq_lens, torch.ones(PADDED - len(of.seq_lens), dtype=torch.int64)])
    # an older step's slots stand in the rows that pad, and other requests own them now
    slots = 20 + 30 * torch.arange(PADDED)[:, None] + torch.arange(WIDTH)
    worker.trees.slots[:PADDED] = slots
    worker._draft_verify_out_cache_loc_buf[:PADDED] = slots[:, :BLOCK]
    worker._draft_block_positions_buf[:PADDED] = prefix[:, None] + torch.arange(BLOCK)
    logits = torch.zeros((PADDED, WIDTH, VOCABULARY))
    for node, token in SAID.items():
        logits[:, node, token] = 1
    hidden = 1000 + torch.arange(PADDED * WIDTH * HIDDEN, dtype=torch.float32).view(-1, HIDDEN)
    out = SimpleNamespace(next_token_logits=logits.view(-1, VOCABULARY), hidden_states=hidden)
    return out, SimpleNamespace(seq_lens=prefix)


def replay(worker: Worker, of: Any) -> Any:
    """One step whose graph is of PADDED requests: None where the graph must not commit."""
    asked = worker.commit.in_graph(of)
    out, forward_batch = verified(worker, of)
    worker.commit.capture(worker.model_runner.decode_cuda_graph_runner, out, forward_batch, PADDED * WIDTH)
    return worker.commit.replayed(len(of.reqs)) if asked else None


def after_pass(worker: Worker, of: Any) -> Any:
    out, _ = verified(worker, of)
    rows = len(of.reqs) * WIDTH
    cut = SimpleNamespace(next_token_logits=out.next_token_logits[:rows], hidden_states=out.hidden_states[:rows])
    return worker.commit.after_pass(SimpleNamespace(reqs=of.reqs, seq_lens=of.seq_lens, sampling_info=None), cut)


def test_the_graph_keeps_what_would_be_kept_behind_the_pass_and_nothing_of_rows_that_pad_it() -> None:
    of = batch(request("a"), request("b", new=3, prompt=50), request("c", stops=(13,)))
    graph, eager = Worker(), Worker()
    found, expected = replay(graph, of), after_pass(eager, of)
    assert found.lens.tolist() == [3, 2, 1]
    assert found.emitted.tolist() == [[13, 15, 40, 0], [13, 15, 0, 0], [13, 0, 0, 0]]
    assert found.new_lens.tolist() == [23, 52, 81]
    for part, want in zip(found, expected, strict=True):
        assert torch.equal(part, want)
    # the path's rows stand in front, in both layers; nothing else moved
    for layer, before in zip(graph.pool, Worker().pool, strict=True):
        moved = (layer != before).any(-1).nonzero().flatten().tolist()
        assert moved == [21, 22, 51]
        assert torch.equal(layer[[21, 22, 51]], before[[23, 25, 53]])
    assert all(torch.equal(a, b) for a, b in zip(graph.pool, eager.pool, strict=True))
    written = graph.drafter_pool.any(-1).nonzero().flatten().tolist()
    assert written == [20, 21, 22, 50, 51, 80]
    assert torch.equal(graph.drafter_pool, eager.drafter_pool)


@pytest.mark.parametrize(
    "changes",
    [
        {"is_all_greedy": False},
        {"has_custom_logit_processor": True},
        {"logit_bias": torch.zeros(1)},
        {"vocab_mask": torch.zeros(1)},
        {"acc_additive_penalties": torch.zeros(1)},
        {"acc_scaling_penalties": torch.ones(1)},
        {"penalizer_orchestrator": SimpleNamespace(is_required=True)},
    ],
)
def test_a_batch_whose_tokens_are_not_simply_the_likeliest_goes_through_the_graph_untouched(changes: Any) -> None:
    worker = Worker()
    # committed by the graph in the step before
    assert replay(worker, batch(request("a"))) is not None
    pool, drafter = [layer.clone() for layer in worker.pool], worker.drafter_pool.clone()
    assert replay(worker, batch(request("a"), **changes)) is None
    assert all(torch.equal(a, b) for a, b in zip(worker.pool, pool, strict=True))
    assert torch.equal(worker.drafter_pool, drafter)


def test_capture_itself_commits_nobody_before_any_step() -> None:
    worker = Worker()
    pool, graphs = [layer.clone() for layer in worker.pool], worker.model_runner.decode_cuda_graph_runner
    out = SimpleNamespace(
        next_token_logits=torch.zeros((PADDED * WIDTH, VOCABULARY)), hidden_states=torch.ones((PADDED * WIDTH, HIDDEN))
    )
    worker.commit.capture(graphs, out, SimpleNamespace(seq_lens=torch.ones(PADDED, dtype=torch.int64)), PADDED * WIDTH)
    assert all(torch.equal(a, b) for a, b in zip(worker.pool, pool, strict=True))
    assert not worker.drafter_pool.any()


def test_more_stop_tokens_than_a_graph_has_room_for_and_batches_without_a_graph() -> None:
    worker = Worker()
    assert not worker.commit.in_graph(batch(request("a", stops=tuple(range(5, 14)))))
    assert worker.commit.in_graph(batch(request("b", stops=tuple(range(5, 12)))))
    assert not worker.commit.in_graph(batch(*(request(name) for name in "abcde")))
    worker.graphs_are_on = False
    assert not worker.commit.in_graph(batch(request("a")))


def test_who_left_the_batch_is_nobody_in_the_next_step() -> None:
    worker = Worker()
    replay(worker, batch(request("a"), request("b"), request("c", stops=(3, 4, 5))))
    found = replay(worker, batch(request("c"), request("a", new=1)))
    assert found.lens.tolist() == [3, 1]
    last_lens, stops = worker.commit._limits.in_graph(PADDED)
    assert last_lens.tolist() == [1 << 40, 10, -1, -1]
    assert stops.tolist() == [[2, *[-1] * 7]] * 2 + [[-1] * 8] * 2


def test_a_result_is_not_overwritten_by_the_next_replay() -> None:
    worker = Worker()
    first = replay(worker, batch(request("a")))
    kept = [part.clone() for part in first]
    replay(worker, batch(request("b", new=1)))
    assert all(torch.equal(part, want) for part, want in zip(first, kept, strict=True))


def test_the_graph_has_a_workspace_that_a_long_prompt_does_not_take_away() -> None:
    worker = Worker()
    shared = worker._fused_kv_helper
    replay(worker, batch(request("a")))
    (inside,) = worker.workspaces
    assert inside is not shared
    assert inside._proj_workspace is not shared._proj_workspace
    assert inside.flat_kv_weight_t is shared.flat_kv_weight_t
    assert worker._fused_kv_helper is shared
    address = inside._proj_workspace.data_ptr()
    assert ("drafter projection", address) in [(name, t.data_ptr()) for name, t in worker.commit.captured()]
    after_pass(worker, batch(request("a")))
    assert worker.workspaces[1] is shared


def test_an_append_that_gave_up_inside_a_graph_is_no_silent_way_out() -> None:
    worker = Worker()
    worker.append_fails = True
    with pytest.raises(RuleBroken, match="drafter-append"):
        replay(worker, batch(request("a")))
