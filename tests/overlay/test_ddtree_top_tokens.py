"""The likeliest tokens over the whole vocabulary, whole and in shards."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
pytest.importorskip("triton")

from ddops_overlay.ddtree.ops import top_tokens  # noqa: E402


def logits(rows: int, vocabulary: int, dtype: Any) -> Any:
    generator = torch.Generator().manual_seed(rows * vocabulary)
    return (torch.randn((rows, vocabulary), generator=generator) * 3).to(dtype)


@pytest.mark.parametrize("function", [top_tokens.reference, top_tokens.kernel])
@pytest.mark.parametrize(("rows", "vocabulary", "k"), [(1, 50, 1), (3, 5000, 8), (2, 9001, 16)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_log_probabilities_are_of_the_whole_vocabulary(
    function: Any, rows: int, vocabulary: int, k: int, dtype: Any
) -> None:
    x = logits(rows, vocabulary, dtype)
    part = function(x, k)
    expected = torch.log_softmax(x.double(), -1).gather(1, part.ids)
    assert torch.allclose(part.logp().double(), expected, atol=2e-5)
    assert torch.equal(part.values, x.float().sort(dim=-1, descending=True).values[:, :k])


def test_of_equal_logits_the_lower_token_id_comes_first() -> None:
    x = torch.zeros((2, 9000))
    x[1, 7000] = x[1, 4100] = x[1, 30] = 1.0
    for function in (top_tokens.reference, top_tokens.kernel):
        part = function(x, 4)
        assert part.ids.tolist() == [[0, 1, 2, 3], [30, 4100, 7000, 0]]


@pytest.mark.parametrize(
    "functions", [(top_tokens.reference, top_tokens.merge_reference), (top_tokens.kernel, top_tokens.merge_kernel)]
)
@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_shards_give_what_the_whole_gives(functions: Any, ranks: int) -> None:
    find, merge = functions
    x = (logits(5, 4096, torch.float32) * 2).round() / 2  # many equals, across shards too
    width = 4096 // ranks
    parts = [find(x[:, r * width : (r + 1) * width].contiguous(), 8, r * width) for r in range(ranks)]
    merged = merge(top_tokens.Part(*(torch.stack(t) for t in zip(*parts, strict=True))), 8)
    whole = find(x, 8)
    assert torch.equal(merged.ids, whole.ids)
    assert torch.allclose(merged.logp(), whole.logp(), atol=1e-5)


def test_nan_is_never_a_candidate_and_ids_stay_in_the_vocabulary() -> None:
    x = torch.full((1, 5000), torch.nan)
    x[0, 4999] = 2.0
    for function in (top_tokens.reference, top_tokens.kernel):
        part = function(x, 3)
        assert int(part.ids[0, 0]) == 4999
        assert 0 <= int(part.ids.min()) <= int(part.ids.max()) < 5000
        assert float(part.logp()[0, 0]) == pytest.approx(0.0)
