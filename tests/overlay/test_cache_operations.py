"""KV slot bookkeeping around a verification, and the stand-in that offers it to SGLang."""

import sys

import pytest
import trees

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")

from ddops_overlay.cpu import sgl_kernel  # noqa: E402
from ddops_overlay.cpu.ops.accept_cache_locs import fill_accept_out_cache_loc  # noqa: E402
from ddops_overlay.cpu.ops.bonus_tokens import fill_bonus_tokens  # noqa: E402
from ddops_overlay.cpu.ops.extend_cache_locs import assign_extend_cache_locs  # noqa: E402
from ddops_overlay.cpu.ops.req_to_token import assign_req_to_token_pool  # noqa: E402


@pytest.mark.parametrize("seed", range(20))
def test_slots_written_are_slots_read(seed: int) -> None:
    random = trees.seeded(seed)
    batch, length = random.choice([1, 3, 6]), 40
    rows = random.sample(range(10), batch)
    starts = [random.randrange(20) for _ in rows]
    ends = [start + random.randrange(length - start) for start in starts]
    total = sum(ends) - sum(starts)
    table = torch.full((10, length), -1, dtype=torch.int32)
    slots = torch.randperm(1000)[:total]
    spans = (torch.tensor(starts), torch.tensor(ends))
    assign_req_to_token_pool(torch.tensor(rows), table, *spans, slots, length)

    expected = iter(slots.tolist())
    for row in range(10):
        assert (table[row] == -1).all() or row in rows
    for row, start, end in zip(rows, starts, ends, strict=True):
        assert table[row, start:end].tolist() == [next(expected) for _ in range(end - start)]
        assert (table[row, :start] == -1).all()
        assert (table[row, end:] == -1).all()

    out = torch.zeros(total + 5, dtype=torch.int64)
    assign_extend_cache_locs(torch.tensor(rows), table, *spans, out, length)
    assert out.tolist() == [*slots.tolist(), 0, 0, 0, 0, 0]


def test_accepted_slots_are_packed() -> None:
    accept_index = torch.tensor([[0, 2, -1], [3, -1, -1]], dtype=torch.int32)
    out = torch.zeros(6, dtype=torch.int64)
    fill_accept_out_cache_loc(accept_index, torch.tensor([10, 11, 12, 13, 14, 15]), out)
    assert out.tolist() == [10, 12, 13, 0, 0, 0]


def test_the_bonus_is_the_last_accepted() -> None:
    bonus = torch.zeros(2, dtype=torch.int64)
    fill_bonus_tokens(torch.tensor([5, 6, 7, 8, 9, 0]), torch.tensor([3, 1]), bonus, 3)
    assert bonus.tolist() == [7, 8]


def test_the_stand_in_offers_each_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sgl_kernel", "sgl_kernel.speculative"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    sgl_kernel.install()
    package = sys.modules["sgl_kernel"]
    assert all(getattr(package, name) is operation for name, operation in sgl_kernel.OPERATIONS.items())
    with pytest.raises(NotImplementedError, match="copy_all_layer_kv_cache_cpu"):
        package.copy_all_layer_kv_cache_cpu()
    assert callable(sys.modules["sgl_kernel.speculative"].reconstruct_indices_from_tree_mask)
    for name in ("sgl_kernel", "sgl_kernel.speculative"):
        del sys.modules[name]


def test_a_real_sgl_kernel_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    real = object()
    monkeypatch.setitem(sys.modules, "sgl_kernel", real)
    sgl_kernel.install()
    assert sys.modules["sgl_kernel"] is real
