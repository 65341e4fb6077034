"""Positions, slots, masks and the move of the accepted rows, each against lists."""

from typing import Any

import pytest
import trees

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
pytest.importorskip("triton")

from ddops_overlay.ddtree.ops import compact_kv, path_rows, tree_mask, verify_rows  # noqa: E402


def depths_of(parents: list[int]) -> list[int]:
    return [len(trees.ancestors(parents, i)) for i in range(len(parents))]


@pytest.mark.parametrize("function", [verify_rows.reference, verify_rows.kernel])
@pytest.mark.parametrize(("bs", "rows"), [(1, 9), (3, 33), (8, 65)])
def test_siblings_share_a_position_and_no_slot(function: Any, bs: int, rows: int) -> None:
    random = trees.seeded(rows)
    forest = [trees.random_parents(random, rows) for _ in range(bs)]
    prefix = [random.randrange(1, 400) for _ in range(bs)]
    req = random.sample(range(20), bs)
    table = torch.randperm(20 * 500, dtype=torch.int32).view(20, 500)
    positions, slots = torch.full((bs, rows), -7), torch.full((bs, rows), -7)
    depths = torch.tensor([depths_of(p) for p in forest], dtype=torch.int32)
    function(depths, torch.tensor(prefix), torch.tensor(req), table, positions, slots)
    for b in range(bs):
        assert positions[b].tolist() == [prefix[b] + d for d in depths_of(forest[b])]
        assert slots[b].tolist() == table[req[b], prefix[b] : prefix[b] + rows].tolist()


@pytest.mark.parametrize("function", [tree_mask.reference, tree_mask.kernel])
@pytest.mark.parametrize(("bs", "rows"), [(1, 2), (8, 9), (5, 17), (2, 33), (1, 65)])
def test_a_row_sees_its_ancestors_and_itself_and_nobody_else(function: Any, bs: int, rows: int) -> None:
    random = trees.seeded(bs * rows)
    forest = [trees.random_parents(random, rows) for _ in range(bs)]
    forest[-1] = [-1, *([-1] * (rows - 1))]  # rows that are no nodes see themselves alone
    prefix = [random.randrange(1, 60) for _ in range(bs)]
    sizes = [rows * (p + rows) for p in prefix]
    starts = torch.tensor([sum(sizes[:b]) for b in range(bs)])
    guard = 64
    whole = torch.full((guard + sum(sizes) + guard,), 77, dtype=torch.uint8)
    parents = torch.tensor(forest, dtype=torch.int32)
    function(parents, torch.tensor(prefix), starts, whole[guard : guard + sum(sizes)], rows)
    assert set(whole[:guard].tolist()) | set(whole[-guard:].tolist()) == {77}
    for b in range(bs):
        block = whole[guard:][int(starts[b]) : int(starts[b]) + sizes[b]].view(rows, -1)
        assert block[:, prefix[b] :].bool().tolist() == trees.mask(forest[b])
        # the kernel leaves the prefix alone, the reference lets every row see it
        assert set(block[:, : prefix[b]].flatten().tolist()) <= {77, 1}


def random_path(random: Any, parents: list[int], longest: int) -> list[int]:
    path = [0]
    while len(path) < longest and (below := trees.children(parents, path[-1])) and random.random() < 0.9:
        path.append(random.choice(below))
    return path


@pytest.mark.parametrize("kind", ["reference", "kernel"])
@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [([(3, 64), (3, 64)], torch.float32), ([(1, 576)], torch.bfloat16), ([(5, 3), (7, 1)], torch.uint8)],
)
def test_the_accepted_rows_come_to_the_front_and_nothing_else_moves(kind: str, shapes: Any, dtype: Any) -> None:
    random = trees.seeded(len(shapes))
    for rows in (9, 17, 65):
        bs, longest = random.choice([1, 4, 8]), 8
        forest = [trees.random_parents(random, rows) for _ in range(bs)]
        pool = bs * rows + 50
        slots = torch.randperm(pool)[: bs * rows].view(bs, rows)
        buffers = [(torch.randn((pool, *shape)) * 40).to(dtype) for shape in shapes]
        expected = [b.clone() for b in buffers]
        path, lens = torch.zeros((bs, longest), dtype=torch.int64), torch.zeros(bs, dtype=torch.int32)
        for b in range(bs):
            nodes = random_path(random, forest[b], longest)
            lens[b] = len(nodes)
            path[b] = torch.tensor([b * rows + n for n in nodes] + [b * rows] * (longest - len(nodes)))
            for old, new in zip(buffers, expected, strict=True):
                for k, node in enumerate(nodes):
                    new[slots[b, k]] = old[slots[b, node]]
        table = compact_kv.Table.of(buffers)
        if kind == "kernel":
            compact_kv.kernel(table, slots, path, lens)
        else:
            compact_kv.reference(buffers, slots, path, lens)
        for got, want in zip(buffers, expected, strict=True):
            assert torch.equal(got, want)


def test_hidden_rows_come_in_the_order_of_the_path() -> None:
    hidden = torch.arange(2 * 9)[:, None] * torch.ones(4)
    path = torch.tensor([[0, 3, 8, 0], [9, 10, 9, 9]])
    assert path_rows.path_rows(hidden, path)[:, 0].tolist() == [0, 3, 8, 0, 9, 10, 9, 9]
