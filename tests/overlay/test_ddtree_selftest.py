"""The proof at start-up on a toy model: a row's logits are made of all rows that it sees, so a wrong mask shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
pytest.importorskip("sglang")
os.environ["SGLANG_USE_CPU_ENGINE"] = "1"

from ddops_overlay.cpu import plan  # noqa: E402

plan.activate()

from ddops_overlay.ddtree import selftest  # noqa: E402
from ddops_overlay.ddtree.buffers import TreeBuffers  # noqa: E402
from ddops_overlay.ddtree.ops.tree_mask import visible  # noqa: E402

VOCABULARY, WIDTH, BLOCK = 500, 13, 8
TABLE = torch.randn((VOCABULARY, 32), generator=torch.Generator().manual_seed(1))


def logits(tokens: Any, seen: Any, prefix: Any) -> Any:
    """tokens [bs, N], seen [bs, N, N], prefix [bs, P]: an even mixture of all that a row sees, through a head."""
    mixed = seen.float() @ TABLE[tokens] + TABLE[prefix].sum(1, keepdim=True)
    return (mixed / 4).tanh() @ TABLE.T


class Toy:
    """Stands for the worker; `mask` is what its graphs make of the trees, `eager` what its eager pass makes."""

    def __init__(self, mask: Callable[[Any], Any], eager: Callable[[Any], Any] | None = None) -> None:
        self.mask, self.eager = mask, eager or mask
        self.trees, self.width, self.block_size, self.device = TreeBuffers(9, WIDTH, "cpu"), WIDTH, BLOCK, "cpu"
        self.settings = SimpleNamespace(budget=WIDTH - 1, topk=8, spine=True, audit=False)
        self.ps, self.graphs_are_on = SimpleNamespace(tp_rank=0), True
        slots = SimpleNamespace(alloc=lambda count: torch.arange(count), free=lambda _slots: None)
        self.model_runner = SimpleNamespace(
            req_to_token_pool=SimpleNamespace(req_to_token=torch.zeros((20, 100), dtype=torch.int32)),
            token_to_kv_pool_allocator=slots,
            model_config=SimpleNamespace(vocab_size=VOCABULARY),
            decode_cuda_graph_runner=SimpleNamespace(capture_bs=[1, 2, 4, 8]),
        )
        self.audit = SimpleNamespace(check_guards=lambda: None)
        self.prompt: Any = None


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """(rank, evidence, problem) as it would stand in the journal."""
    lines: list[Any] = []

    def prefill(worker: Toy, prompt: Any, _rows: Any) -> Any:
        worker.prompt = prompt
        return logits(prompt[:, -1:], torch.ones((len(prompt), 1, 1)), prompt[:, :-1])[:, 0]

    def verify(worker: Toy, bs: int, _rows: Any) -> Any:
        tree = worker.trees.of(bs)
        graph = worker.model_runner.decode_cuda_graph_runner is not None
        return logits(tree.tokens, (worker.mask if graph else worker.eager)(tree.parents), worker.prompt[:, :-1])

    monkeypatch.setattr(selftest, "_prefill", prefill)
    monkeypatch.setattr(selftest, "_verify", verify)
    # test_ddtree_selftest_commit.py has that one
    monkeypatch.setattr(selftest, "committed", lambda *_: 0.0)
    monkeypatch.setattr(selftest, "audited", lambda *line: lines.append(line))
    return lines


def tree(parents: Any) -> Any:
    return visible(parents, BLOCK - 1)


def chain(parents: Any) -> Any:
    return torch.ones((len(parents), WIDTH, WIDTH)).tril()


def alone(parents: Any) -> Any:
    return torch.eye(WIDTH).expand(len(parents), -1, -1)


def blind_root(parents: Any) -> Any:
    seen = tree(parents).float()
    seen[:, 0, 0] = 0
    return seen


def only_the_first_request(parents: Any) -> Any:
    """Right for a batch of one; the other requests of a batch get another's mask."""
    seen = tree(parents).float()
    seen[1:] = seen[1:].roll(1, dims=1)
    return seen


def test_a_right_server_says_what_it_found(said: list[Any]) -> None:
    selftest.run(Toy(tree))
    ((rank, evidence, problem),) = said
    assert (rank, problem) == (0, None)
    assert set(evidence["batches"]) == {"1", "3"}, "one request, and the smallest batch that a graph pads"
    for found in evidence["batches"].values():
        assert found["leak"] == found["replay"] == 0
        assert found["effect"] > 0.1
        assert found["root"] < 1e-5
    assert (evidence["width"], evidence["budget"], evidence["graphs"]) == (WIDTH, WIDTH - 1, True)


@pytest.mark.parametrize(
    ("mask", "eager", "rule"),
    [
        (chain, None, "sibling-unseen"),
        (alone, None, "ancestor-seen"),
        (blind_root, None, "root-row"),
        (blind_root, tree, "replay-is-eager"),
        (only_the_first_request, tree, "ancestor-seen"),
    ],
)
def test_a_wrong_mask_is_named(said: list[Any], mask: Any, eager: Any, rule: str) -> None:
    selftest.run(Toy(mask, eager))
    assert said[0][2].startswith(f"ddtree rule {rule} is broken")


def test_what_it_used_is_given_back(said: list[Any]) -> None:
    toy = Toy(chain)
    freed: list[int] = []
    toy.model_runner.token_to_kv_pool_allocator.free = lambda slots: freed.append(len(slots))
    toy.model_runner.req_to_token_pool.req_to_token.fill_(3)
    selftest.run(toy)
    assert freed == [selftest._PREFIX + WIDTH]
    assert bool((toy.model_runner.req_to_token_pool.req_to_token == 3).all())
    assert toy.model_runner.decode_cuda_graph_runner is not None


def test_no_room_for_the_test_is_no_proof(said: list[Any]) -> None:
    toy = Toy(tree)
    toy.model_runner.token_to_kv_pool_allocator.alloc = lambda _count: None
    selftest.run(toy)
    assert said[0][2].startswith("ddtree rule selftest-room is broken")
