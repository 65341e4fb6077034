"""The accepted path against a walk over the tree as lists."""

from random import Random
from typing import Any

import pytest
import trees

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
pytest.importorskip("triton")

from ddops_overlay.ddtree.ops import walk  # noqa: E402

FUNCTIONS = [walk.reference, walk.kernel]
FAR = 1 << 40


def walked(function: Any, target: Any, tokens: Any, *rest: Any) -> walk.Walk:
    *inputs, longest = rest
    out = walk.Walk.empty(len(tokens), longest, "cpu")
    function(target, tokens, *inputs, out)
    return out


def case(random: Random, bs: int, rows: int) -> tuple[list[list[int]], Any, Any, Any]:
    """Trees whose siblings differ, and a target that says a child's token most of the time."""
    forest = [trees.random_parents(random, rows) for _ in range(bs)]
    tokens = torch.zeros((bs, rows), dtype=torch.int64)
    target = torch.zeros((bs, rows), dtype=torch.int64)
    for b, parents in enumerate(forest):
        for node in range(rows):
            below = trees.children(parents, node)
            # few different tokens, so the same token stands in many places of the tree
            said = random.sample(range(50, 50 + max(4, len(below))), len(below))
            for child, token in zip(below, said, strict=True):
                tokens[b, child] = token
            target[b, node] = random.choice(said) if said and random.random() < 0.85 else 7
    parents = torch.tensor(forest, dtype=torch.int32)
    return forest, tokens, parents, target


def expected(parents: list[int], tokens: Any, target: Any, limit: int, stops: set[int]) -> tuple[list[int], list[int]]:
    node, emitted, path = 0, [], []
    while True:
        emitted.append(int(target[node]))
        path.append(node)
        if len(emitted) == limit or emitted[-1] in stops:
            return emitted, path
        match = [c for c in trees.children(parents, node) if int(tokens[c]) == emitted[-1]]
        if not match:
            return emitted, path
        node = match[0]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("rows", [2, 9, 17, 33, 65])
def test_the_path_the_target_takes(function: Any, rows: int) -> None:
    random = trees.seeded(rows)
    for bs in (1, 3, 8) if rows < 33 else (2,):
        forest, tokens, parents, target = case(random, bs, rows)
        prefix = torch.tensor([random.randrange(1, 5000) for _ in range(bs)])
        room = [random.choice([-3, 0, 1, 2, 5, FAR]) for _ in range(bs)]
        stops = torch.tensor([random.choice([[-1, -1], [51, -1], [52, 53]]) for _ in range(bs)])
        out = walked(function, target, tokens, parents, prefix, prefix + torch.tensor(room), stops, rows)
        for b in range(bs):
            emitted, path = expected(
                forest[b], tokens[b], target[b], max(min(room[b], rows), 1), set(stops[b].tolist()) - {-1}
            )
            count = len(emitted)
            assert int(out.lens[b]) == count
            assert out.emitted[b, :count].tolist() == emitted
            assert not out.emitted[b, count:].any()
            assert out.path[b].tolist() == [b * rows + n for n in path] + [b * rows] * (rows - count)
            assert int(out.bonus[b]) == emitted[-1]
            assert int(out.new_lens[b]) == int(prefix[b]) + count


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_stop_token_inside_the_path_ends_it(function: Any) -> None:
    tokens, parents = torch.tensor([[9, 10, 11, 12]]), torch.tensor([[-1, 0, 1, 2]], dtype=torch.int32)
    target = torch.tensor([[10, 11, 12, 13]])
    whole = walked(function, target, tokens, parents, torch.tensor([5]), torch.tensor([FAR]), torch.tensor([[-1]]), 4)
    cut = walked(function, target, tokens, parents, torch.tensor([5]), torch.tensor([FAR]), torch.tensor([[11]]), 4)
    short = walked(function, target, tokens, parents, torch.tensor([5]), torch.tensor([8]), torch.tensor([[-1]]), 4)
    assert whole.emitted.tolist() == [[10, 11, 12, 13]]
    assert cut.emitted.tolist() == [[10, 11, 0, 0]]
    assert (int(cut.lens), int(cut.bonus), int(cut.new_lens)) == (2, 11, 7)
    assert short.emitted.tolist() == [[10, 11, 12, 0]]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_that_are_no_nodes_are_never_reached(function: Any) -> None:
    tokens, parents = torch.tensor([[9, 10, 0, 0]]), torch.tensor([[-1, 0, -1, -1]], dtype=torch.int32)
    out = walked(
        function,
        torch.tensor([[10, 0, 5, 5]]),
        tokens,
        parents,
        torch.tensor([1]),
        torch.tensor([FAR]),
        torch.tensor([[-1]]),
        4,
    )
    assert out.path.tolist() == [[0, 1, 0, 0]]
    assert out.emitted.tolist() == [[10, 0, 0, 0]]
    assert int(out.lens) == 2


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nobodys_row_emits_nothing_beside_others(function: Any) -> None:
    tokens, parents = torch.tensor([[9, 10, 11]] * 3), torch.tensor([[-1, 0, 1]] * 3, dtype=torch.int32)
    target, stops = torch.tensor([[10, 11, 12]] * 3), torch.tensor([[-1]] * 3)
    out = walked(function, target, tokens, parents, torch.tensor([4, 5, 6]), torch.tensor([-1, FAR, -1]), stops, 3)
    assert out.lens.tolist() == [0, 3, 0]
    assert out.emitted.tolist() == [[0, 0, 0], [10, 11, 12], [0, 0, 0]]
    assert out.path.tolist() == [[0, 0, 0], [3, 4, 5], [6, 6, 6]]
    assert out.new_lens.tolist() == [4, 8, 6]


def test_one_copy_takes_all_of_a_walk_along() -> None:
    words = torch.arange(walk.Walk.words(3, 5))
    parts = walk.Walk.over(words, 3, 5)
    assert [part.shape for part in parts] == [(3, 5), (3, 5), (3,), (3,), (3,)]
    for part in parts:
        part.fill_(7)
    copied = walk.Walk.over(words.clone(), 3, 5)
    words.zero_()
    assert all(bool((part == 7).all()) for part in copied)
    assert copied.lens.dtype == torch.int32
