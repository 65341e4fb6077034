"""From the drafter's hidden rows to trees: whole, and with the vocabulary in shards."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
pytest.importorskip("triton")
os.environ["SGLANG_USE_CPU_ENGINE"] = "1"

from ddops_overlay.ddtree.buffers import TreeBuffers  # noqa: E402
from ddops_overlay.ddtree.rules import RuleBroken  # noqa: E402
from ddops_overlay.ddtree.sampler import TreeSampler  # noqa: E402

BLOCK, TOPK, WIDTH, VOCABULARY, HIDDEN = 8, 4, 17, 96, 16
# columns of padding and of added tokens behind the vocabulary, which must never be proposed
PADDED = VOCABULARY + 8
HEAD = torch.randn((PADDED, HIDDEN), generator=torch.Generator().manual_seed(2))
HEAD[VOCABULARY:] *= 100


def head(first: int, count: int) -> Any:
    shard = SimpleNamespace(num_org_elements=count, org_vocab_start_index=first)
    return SimpleNamespace(weight=HEAD[first : first + count + 8].clone(), shard_indices=shard)


def inputs(bs: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(bs)
    ids = torch.zeros((bs, BLOCK), dtype=torch.int64)
    ids[:, 0] = torch.arange(bs) + 40
    return torch.randn((bs * BLOCK, HIDDEN), generator=generator), ids.flatten()


def tree(lm_head: Any, group: Any, bs: int, spine: bool = True) -> Any:
    trees = TreeBuffers(4, WIDTH, "cpu")
    TreeSampler(lm_head, BLOCK, TOPK, spine, trees, group)(*inputs(bs))
    return trees.of(bs)


@pytest.mark.parametrize("bs", [1, 3])
def test_the_spine_is_the_heads_greedy_chain(bs: int) -> None:
    found = tree(head(0, VOCABULARY), None, bs)
    hidden, ids = inputs(bs)
    greedy = (hidden.view(bs, BLOCK, HIDDEN)[:, 1:] @ HEAD[:VOCABULARY].T).argmax(-1)
    assert torch.equal(found.tokens[:, 1:BLOCK], greedy)
    assert torch.equal(found.tokens[:, 0], ids.view(bs, BLOCK)[:, 0])
    assert int(found.tokens[:, 1:].max()) < VOCABULARY


class Ranks:
    """The group of rank 0 of two: what rank 1 would send is known."""

    world_size = 2

    def __init__(self, other: Any) -> None:
        self.other = iter(other)

    def all_gather_into_tensor(self, out: Any, mine: Any) -> None:
        out[: len(mine)] = mine
        out[len(mine) :] = next(self.other)


@pytest.mark.parametrize("spine", [True, False])
def test_shards_build_the_tree_of_the_whole(spine: bool) -> None:
    half = VOCABULARY // 2
    second = TreeSampler(head(half, half), BLOCK, TOPK, spine, TreeBuffers(4, WIDTH, "cpu"), None)
    hidden, _ = inputs(3)
    rows = hidden.view(3, BLOCK, HIDDEN)[:, 1:].flatten(0, 1)
    other = second._top(rows @ HEAD[half : 2 * half].T)
    found = tree(head(0, half), Ranks(other), 3, spine)
    whole = tree(head(0, VOCABULARY), None, 3, spine)
    for got, want in zip(found, whole, strict=True):
        assert torch.equal(got, want)


def test_what_cannot_be_sampled_is_refused() -> None:
    quantised = SimpleNamespace(weight=torch.zeros((8, 4), dtype=torch.int8))
    with pytest.raises(RuleBroken, match="ddtree rule head"):
        tree(quantised, None, 1)
    with pytest.raises(RuleBroken, match="ddtree rule tree-rows"):
        tree(head(0, VOCABULARY), None, 5)
