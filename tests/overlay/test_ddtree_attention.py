"""Attention of the verified rows, the prefix in parts, against all of it at once."""

from typing import Any, NamedTuple

import pytest
import trees

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
pytest.importorskip("triton")

from ddops_overlay.ddtree.ops import tree_attention, tree_mask  # noqa: E402
from ddops_overlay.ddtree.ops.attention_tile import Tile, parts_of  # noqa: E402

# taken with a tuple of inputs
KERNEL: Any = tree_attention.kernel


class Shape(NamedTuple):
    heads: int
    kv: int
    dq: int
    dv: int
    tile: Tile


SHAPES = {
    "mha": Shape(2, 2, 32, 32, Tile(32, 0, 32, 32, 64, 4)),
    "gqa, padded": Shape(6, 2, 40, 24, Tile(64, 0, 32, 64, 32, 4)),
    "mla": Shape(4, 1, 80, 64, Tile(64, 16, 64, 32, 64, 8)),
}
# bfloat16 is compared on a GPU (benchmarks/device/attention.py): Triton's interpreter multiplies its bits
TOLERANCE = {"float32": 1e-5, "float16": 4e-3}


def case(seed: int, shape: Shape, prefixes: list[int], width: int, dtype: Any) -> Any:
    """Inputs of the operation on random trees. The pool's slots are shuffled, and what nobody may read is NaN."""
    generator = torch.Generator().manual_seed(seed)
    random, bs = trees.seeded(seed), len(prefixes)

    def normal(*size: int) -> Any:
        return torch.randn(size, generator=generator).to(dtype)

    slots = torch.randperm(sum(prefixes) + 7, generator=generator)
    k_pool = torch.full((len(slots), shape.kv, shape.dq), float("nan"), dtype=dtype)
    k_pool[slots[7:]] = normal(sum(prefixes), shape.kv, shape.dq)
    shares = shape.kv == 1  # MLA's values are the front of its keys
    v_pool = k_pool[..., : shape.dv] if shares else normal(len(slots), shape.kv, shape.dv)
    q, k = normal(bs * width, shape.heads, shape.dq), normal(bs * width, shape.kv, shape.dq)
    v = k[..., : shape.dv].contiguous() if shares else normal(bs * width, shape.kv, shape.dv)
    parents = torch.tensor([trees.random_parents(random, width) for _ in prefixes], dtype=torch.int32)
    lens = torch.tensor(prefixes)
    mask_indptr = torch.cat([torch.zeros(1, dtype=torch.int64), (width * (lens + width)).cumsum(0)])
    mask = torch.full((int(mask_indptr[-1]),), 77, dtype=torch.uint8)  # the prefix's columns are nobody's business
    tree_mask.kernel(parents, lens, mask_indptr, mask, width)
    kv_indptr = torch.cat([torch.zeros(1, dtype=torch.int32), lens.cumsum(0).to(torch.int32)])
    out = torch.full((bs * width, shape.heads, shape.dv), float("nan"), dtype=dtype)
    return q, k, v, out, k_pool, v_pool, kv_indptr, slots[7:], mask, mask_indptr, width, shape.dq**-0.5


def both(inputs: Any, tile: Tile, processors: int) -> tuple[Any, Any]:
    q, k, v, out, *rest = inputs
    expected = out.clone()
    tree_attention.reference(q, k, v, expected, *rest)
    KERNEL(*inputs, tile, processors)
    return out, expected


@pytest.mark.parametrize(
    ("name", "dtype"), [("mha", "float32"), ("gqa, padded", "float32"), ("mla", "float32"), ("mla", "float16")]
)
@pytest.mark.parametrize(("prefixes", "width"), [([1], 2), ([300, 5, 129], 9), ([40], 65)])
def test_a_row_sees_the_prefix_its_ancestors_and_itself(name: str, dtype: str, prefixes: list[int], width: int) -> None:
    shape = SHAPES[name]
    inputs = case(width, shape, prefixes, width, getattr(torch, dtype))
    found, expected = both(inputs, shape.tile, processors=16)
    assert torch.allclose(found.float(), expected.float(), atol=TOLERANCE[dtype], rtol=0)


@pytest.mark.parametrize(("processors", "parts"), [(1, 1), (24, 3), (1000, 31)])
def test_the_number_of_parts_changes_nothing(processors: int, parts: int) -> None:
    shape = SHAPES["mla"]
    assert parts_of(2, 3, processors) == parts
    found, expected = both(case(3, shape, [700, 1, 260], 9, torch.float32), shape.tile, processors)
    assert torch.allclose(found, expected, atol=1e-5, rtol=0)


def test_a_sibling_is_not_seen() -> None:
    """A change of one node changes the rows below it and no other, not by a bit: what is masked weighs nothing."""
    shape, width = SHAPES["gqa, padded"], 17
    inputs = case(5, shape, [200], width, torch.float32)
    q, k, v, out, *rest = inputs
    both(inputs, shape.tile, 8)
    seen = rest[4].view(width, 200 + width)[:, 200:].bool()
    for node in (1, 4, 16):
        other_k, other_v, other = k.clone(), v.clone(), torch.empty_like(out)
        other_k[node] += 1
        other_v[node] -= 1
        KERNEL(q, other_k, other_v, other, *rest, shape.tile, 8)
        assert torch.equal((other != out).flatten(1).any(1), seen[:, node]), node


def test_a_row_that_sees_itself_alone_is_a_number() -> None:
    """Trees before the first one was planted: every parent is -1, and a late row sees nothing in the first tile."""
    shape, width = SHAPES["gqa, padded"], 65
    inputs = case(9, shape, [40], width, torch.float32)
    mask = inputs[8].view(width, 40 + width)
    mask[:, 40:] = torch.eye(width, dtype=torch.uint8)
    for processors in (1, 100):
        found, expected = both(inputs, shape.tile, processors)
        assert torch.allclose(found, expected, atol=1e-5, rtol=0)


def test_large_scores_stay_finite() -> None:
    shape = SHAPES["mha"]
    inputs = case(6, shape, [300], 9, torch.float32)
    inputs = (inputs[0] * 300, *inputs[1:])
    found, expected = both(inputs, shape.tile, 8)
    assert torch.isfinite(found).all()
    assert torch.allclose(found, expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("blocks", "requests", "parts"), [(1, 1, 31), (9, 1, 14), (9, 2, 7), (9, 8, 1), (300, 1, 1), (4, 3, 8), (4, 4, 8)]
)
def test_parts_fill_the_processors(blocks: int, requests: int, parts: int) -> None:
    assert parts_of(blocks, requests, 132) == parts


def test_a_batch_that_a_graph_pads_is_summed_as_in_the_graph() -> None:
    """Five requests, and the same five with three more: not a bit of the five differs."""
    shape, width = SHAPES["mla"], 9
    q, k, v, out, k_pool, v_pool, kv_indptr, slots, mask, starts, *rest = case(
        8, shape, [300] * 8, width, torch.float32
    )
    inputs = (k_pool, v_pool, kv_indptr, slots, mask, starts, *rest, shape.tile, 40)
    KERNEL(q, k, v, out, *inputs)
    rows = slice(0, 5 * width)
    alone = torch.empty_like(out[rows])
    KERNEL(q[rows], k[rows], v[rows], alone, *inputs)
    assert torch.equal(alone, out[rows])
