"""Attention over prefix and tree against the formula, written out node by node."""

from typing import Any

import pytest
import trees

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")

from ddops_overlay.cpu.ops.verify_attention import split_masks, verify_attention  # noqa: E402

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_against_the_formula(seed: int, dtype: Any) -> None:
    random = trees.seeded(seed)
    torch.manual_seed(seed)
    prefix, n, kv_heads, group, dim = random.randrange(30), random.choice([1, 4, 9]), 3, random.choice([1, 3]), 16
    parents = trees.random_parents(random, n)
    query = torch.randn(n, kv_heads * group, dim, dtype=dtype)
    keys = torch.randn(prefix + n, kv_heads, dim, dtype=dtype)
    values = torch.randn(prefix + n, kv_heads, dim, dtype=dtype)
    tree = torch.tensor(trees.mask(parents))
    (mask,) = split_masks(tree.flatten(), [prefix], n)
    out = verify_attention(query, keys, values, mask, 0.25)

    for node in range(n):
        seen = [*range(prefix), *(prefix + j for j in range(n) if tree[node, j])]
        for head in range(kv_heads * group):
            k, v = (x[seen, head // group].double() for x in (keys, values))
            weights = torch.softmax(0.25 * (k @ query[node, head].double()), 0)
            expected = weights @ v
            torch.testing.assert_close(out[node, head].double(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_the_three_layouts_agree() -> None:
    prefixes, n = [4, 0, 7], 5
    chain = torch.ones(n, n, dtype=torch.bool).tril()
    full = torch.cat([torch.cat([torch.ones(n, p, dtype=torch.bool), chain], 1).flatten() for p in prefixes])
    layouts = [None, chain.repeat(3, 1, 1).flatten(), full]
    first, *others = [split_masks(layout, prefixes, n) for layout in layouts]
    assert [tuple(mask.shape) for mask in first] == [(n, p + n) for p in prefixes]
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_mask_that_fits_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="fits neither"):
        split_masks(torch.ones(7, dtype=torch.bool), [3], 2)
