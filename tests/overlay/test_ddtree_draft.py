"""The end of the drafter's graph: its trees, and where their rows stand, from the graph's own buffers."""

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

from ddops_overlay.ddtree.buffers import TreeBuffers  # noqa: E402
from ddops_overlay.ddtree.draft import plant_from_graph  # noqa: E402
from ddops_overlay.ddtree.sampler import TreeSampler  # noqa: E402

BLOCK, WIDTH, VOCABULARY, HIDDEN, BATCH, PADDED = 4, 9, 50, 8, 2, 3


def test_rows_stand_behind_the_prefix_at_their_depth_in_the_requests_own_slots() -> None:
    generator = torch.Generator().manual_seed(3)
    trees = TreeBuffers(PADDED, WIDTH, "cpu")
    head = SimpleNamespace(weight=torch.randn((VOCABULARY, HIDDEN), generator=generator), shard_indices=None)
    table = torch.arange(6 * 200, dtype=torch.int32).view(6, 200)
    worker = SimpleNamespace(
        block_size=BLOCK,
        trees=trees,
        sampler=TreeSampler(head, BLOCK, 4, True, trees, None),
        model_runner=SimpleNamespace(req_to_token_pool=SimpleNamespace(req_to_token=table)),
    )
    # two requests of 7 and 90 tokens in rows 4 and 1 of the table; the third row pads
    prefix, req = torch.tensor([7, 90, 1]), torch.tensor([4, 1, 0])
    ids = torch.zeros((PADDED, BLOCK), dtype=torch.int64)
    ids[:, 0] = torch.tensor([11, 12, 0])
    out = SimpleNamespace(hidden_states=torch.randn((PADDED * BLOCK, HIDDEN), generator=generator))
    graph: Any = SimpleNamespace(
        input_ids=ids.flatten(),
        positions=(prefix[:, None] + torch.arange(BLOCK)).flatten(),
        # what the drafter sees of a request may be a window of it, so its length tells nothing
        seq_lens=torch.tensor([5, 5, 1]),
        req_pool_indices=req,
    )
    plant_from_graph(worker, None, out, graph, PADDED * BLOCK)

    tree = trees.of(BATCH)
    assert tree.tokens[:, 0].tolist() == [11, 12]
    assert int(tree.depths.max()) == BLOCK - 1
    assert torch.equal(trees.positions[:BATCH], prefix[:BATCH, None] + tree.depths)
    assert trees.slots[0].tolist() == list(range(4 * 200 + 7, 4 * 200 + 7 + WIDTH))
    assert trees.slots[1].tolist() == list(range(1 * 200 + 90, 1 * 200 + 90 + WIDTH))
