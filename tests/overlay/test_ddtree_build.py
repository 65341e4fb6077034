"""The tree builder: the kernel (in Triton's interpreter where there is no GPU) against the reference, and the
reference against brute force."""

from typing import Any

import pytest
import trees

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
pytest.importorskip("triton")

import drafts  # noqa: E402
from ddops_overlay.ddtree.ops import build_tree  # noqa: E402


def build(function: Any, logp: Any, ids: Any, budget: int, spine: bool) -> tuple[Any, Any, Any]:
    out = drafts.empty_tree(logp.shape[0], budget)
    function(logp, ids, torch.arange(logp.shape[0]) + 1000, *out, spine)
    return out


@pytest.mark.parametrize("spine", [True, False])
@pytest.mark.parametrize(("budget", "length", "width"), drafts.SIZES)
def test_kernel_equals_reference(budget: int, length: int, width: int, spine: bool) -> None:
    random = trees.seeded(budget * 100 + length)
    for coarse in (False, True):
        # the interpreter takes seconds for a large tree; batches of them are checked on a GPU (benchmarks/device)
        bs = random.choice([1, 3, 8]) if budget <= 16 else 1
        logp, ids = drafts.log_probabilities(random, bs, length, width, coarse)
        expected = build(build_tree.reference, logp, ids, budget, spine)
        found = build(build_tree.kernel, logp, ids, budget, spine)
        for want, got in zip(expected, found, strict=True):
            assert torch.equal(want, got)


@pytest.mark.parametrize("spine", [True, False])
@pytest.mark.parametrize(
    ("budget", "length", "width"), [(1, 3, 2), (3, 4, 3), (8, 4, 4), (12, 5, 4), (16, 4, 5), (20, 3, 8)]
)
def test_no_tree_of_that_size_is_likelier(budget: int, length: int, width: int, spine: bool) -> None:
    for seed in range(6):
        logp, ids = drafts.log_probabilities(trees.seeded(seed), 1, length, width, coarse=seed % 2 == 1)
        _, parents, depths = build(build_tree.reference, logp, ids, budget, spine)
        ranks = _ranks(logp[0], ids[0], *build(build_tree.reference, logp, ids, budget, spine))
        assert len(set(ranks)) == budget, "the same prefix twice"
        mass = sum(_probability(logp[0], path) for path in ranks)
        assert mass == pytest.approx(drafts.best_sum(logp[0], budget, spine), rel=1e-5)
        assert [int(d) for d in depths[0, 1:]] == [int(depths[0, p]) + 1 for p in parents[0, 1:].long()]


def _ranks(logp: Any, ids: Any, tokens: Any, parents: Any, depths: Any) -> list[tuple[int, ...]]:
    """Each node's path of ranks; asserts that parents come before their children."""
    paths: list[tuple[int, ...]] = [()]
    for i in range(1, tokens.shape[1]):
        parent, depth = int(parents[0, i]), int(depths[0, i])
        assert 0 <= parent < i
        rank = ids[depth - 1].tolist().index(int(tokens[0, i]))
        paths.append((*paths[parent], rank))
    return paths[1:]


def _probability(logp: Any, path: tuple[int, ...]) -> float:
    return float(torch.stack([logp[d, r] for d, r in enumerate(path)]).double().sum().exp())


def test_the_greedy_chain_is_in_the_tree_of_a_flat_drafter() -> None:
    logp, ids = torch.full((1, 7, 8), -3.0), torch.arange(56).view(1, 7, 8)
    tokens, parents, _ = build(build_tree.reference, logp, ids, 8, spine=True)
    assert tokens[0].tolist()[:8] == [1000, 0, 8, 16, 24, 32, 40, 48]
    assert parents[0].tolist()[:8] == [-1, 0, 1, 2, 3, 4, 5, 6]
    flat, _, _ = build(build_tree.reference, logp, ids, 8, spine=False)
    assert set(flat[0].tolist()[1:]) == set(range(8)), "without a spine equals go to the shallow ones first"


def test_what_cannot_be_filled_is_left_where_no_walk_goes() -> None:
    logp, ids = torch.full((2, 3, 1), -1.0), torch.arange(6).view(2, 3, 1)
    for function in (build_tree.reference, build_tree.kernel):
        for spine in (True, False):
            tokens, parents, depths = build(function, logp, ids, 6, spine)
            assert parents[1].tolist() == [-1, 0, 1, 2, -1, -1, -1]
            assert depths[1].tolist() == [0, 1, 2, 3, 0, 0, 0]
            assert tokens[1].tolist() == [1001, 3, 4, 5, 0, 0, 0]


def test_nothing_but_numbers_in_range_comes_of_a_row_of_nan() -> None:
    """Rows that pad a graph hold whatever an earlier step left."""
    logp, ids = torch.full((1, 7, 8), torch.nan), torch.arange(56).view(1, 7, 8)
    for function in (build_tree.reference, build_tree.kernel):
        tokens, parents, depths = build(function, logp, ids, 32, spine=True)
        assert bool((parents[0, 1:] >= 0).all())
        assert bool((parents[0] < torch.arange(33)).all())
        assert int(depths.max()) <= 7
        assert int(tokens.max()) <= 1000
