"""The plain torch tree operations against brute force, on random trees."""

from random import Random
from typing import Any

import pytest
import trees

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")

from ddops_overlay.cpu.ops.tree_indices import reconstruct_indices_from_tree_mask  # noqa: E402
from ddops_overlay.cpu.ops.verify_tree_greedy import verify_tree_greedy  # noqa: E402

SEEDS = range(60)


def sizes(random: Random) -> tuple[int, int]:
    return random.choice([1, 2, 5]), random.choice([1, 2, 3, 9, 17, 33])


def links(forest: list[list[int]], lengths: list[int]) -> tuple[Any, ...]:
    batch, n = len(forest), len(forest[0])
    mask = torch.tensor([trees.mask(parents) for parents in forest])
    positions = torch.full((batch * n,), -7)
    index, child, sibling = (torch.full((batch, n), -7) for _ in range(3))
    reconstruct_indices_from_tree_mask(
        mask.flatten(), torch.tensor(lengths), positions, index, child, sibling, batch, n
    )
    return positions.view(batch, n), index, child, sibling


@pytest.mark.parametrize("seed", SEEDS)
def test_links_and_positions(seed: int) -> None:
    random = trees.seeded(seed)
    batch, n = sizes(random)
    forest = [trees.random_parents(random, n) for _ in range(batch)]
    lengths = [random.randrange(100) for _ in range(batch)]
    positions, index, child, sibling = links(forest, lengths)

    assert index.flatten().tolist() == list(range(batch * n))
    for b, parents in enumerate(forest):
        for node in range(n):
            own = trees.children(parents, node)
            after = [i for i in trees.children(parents, parents[node]) if i > node] if node else []
            assert positions[b, node] == lengths[b] + len(trees.ancestors(parents, node))
            assert child[b, node] == (own[0] if own else -1)
            assert sibling[b, node] == (after[0] if after else -1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shallow", [False, True])
def test_greedy_verification(seed: int, shallow: bool) -> None:
    random = trees.seeded(1000 + seed)
    batch, n = sizes(random)
    width = max(1, n // 3) if shallow else n
    forest = [trees.random_parents(random, n) for _ in range(batch)]
    # few words: siblings share tokens, and long paths are accepted
    words = random.choice([1, 2, 3])
    candidates = torch.tensor([[random.randrange(words) for _ in range(n)] for _ in range(batch)])
    target = torch.tensor([[random.randrange(words) for _ in range(n)] for _ in range(batch)])
    _, index, child, sibling = links(forest, [0] * batch)
    predicts = torch.full((batch * n,), -7, dtype=torch.int32)
    accept_index = torch.full((batch, width), -1, dtype=torch.int32)
    accepted_drafts = torch.empty(batch, dtype=torch.int32)
    verify_tree_greedy(predicts, accept_index, accepted_drafts, candidates, index, child, sibling, target)

    for b, parents in enumerate(forest):
        path = brute_force_path(parents, candidates[b].tolist(), target[b].tolist())[:width]
        rows = [b * n + node for node in path]
        assert accept_index[b].tolist() == rows + [-1] * (width - len(rows))
        assert accepted_drafts[b] == len(path) - 1
        written = {row: int(target[b, node]) for row, node in zip(rows, path, strict=True)}
        assert predicts[b * n : (b + 1) * n].tolist() == [written.get(b * n + i, -7) for i in range(n)]


def brute_force_path(parents: list[int], tokens: list[int], target: list[int]) -> list[int]:
    """Every node by itself: right for its parent, first among equal siblings, below an accepted node."""
    accepted = {0}
    for node in range(1, len(parents)):
        parent = parents[node]
        earlier = [i for i in trees.children(parents, parent) if i < node]
        right = tokens[node] == target[parent] and all(tokens[i] != tokens[node] for i in earlier)
        if right and parent in accepted:
            accepted.add(node)
    return sorted(accepted)
