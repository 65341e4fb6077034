"""The proof at start-up of what the graph keeps, on a toy worker: a sound graph passes, a broken one is named."""

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

from ddops_overlay.ddtree.ops.walk import Walk  # noqa: E402
from ddops_overlay.ddtree.rules import RuleBroken  # noqa: E402
from ddops_overlay.ddtree.selftest_commit import committed  # noqa: E402
from toy import BLOCK, HIDDEN, VOCABULARY, WIDTH, Worker  # noqa: E402

BATCH, PADDED, PREFIX = 3, 4, 12


class Server(Worker):
    """`after_graph` is done to a graph's replay, as a bug would; `commits` says whether it has its end at all."""

    def __init__(self, commits: bool = True, after_graph: Callable[[Server], None] = lambda _: None) -> None:
        super().__init__()
        self.commits, self.after_graph = commits, after_graph
        node = torch.arange(WIDTH)
        tree = self.trees.of(PADDED)
        tree.tokens.copy_(20 + node)
        tree.parents.copy_(torch.where(node < 4, node - 1, 0))
        tree.parents[:, 0] = -1
        self.trees.slots[:PADDED] = 30 * torch.arange(1, PADDED + 1)[:, None] + node
        self.trees.positions[:PADDED] = PREFIX
        self.logits = torch.nn.functional.one_hot((node * 7) % VOCABULARY + 5, VOCABULARY).float()

    def run(self) -> Any:
        """The pass writes the KV of all rows again, each by its token and its place; then the end of the graph."""
        logits = self.logits.expand(PADDED, -1, -1).reshape(-1, VOCABULARY)
        for layer in self.pool:
            rows = self.trees.slots[:PADDED].flatten()
            layer[rows] = (self.trees.of(PADDED).tokens.flatten() * 100 + rows).float()[:, None].expand(-1, HIDDEN)
        hidden = 1000 + torch.arange(PADDED * WIDTH * HIDDEN, dtype=torch.float32).view(-1, HIDDEN)
        out = SimpleNamespace(next_token_logits=logits, hidden_states=hidden)
        if self.commits:
            graph_batch = SimpleNamespace(seq_lens=torch.full((PADDED,), PREFIX))
            self.commit.capture(self.model_runner.decode_cuda_graph_runner, out, graph_batch, PADDED * WIDTH)
            self.after_graph(self)
        cut = slice(0, BATCH * WIDTH)
        return SimpleNamespace(next_token_logits=logits[cut], hidden_states=hidden[cut])

    def examine(self) -> float:
        return committed(self, BATCH, self.logits.expand(BATCH, -1, -1), self.run)


def test_a_sound_graph_keeps_what_is_kept_behind_the_pass() -> None:
    server = Server()
    assert server.examine() == 0
    # afterwards it commits nobody
    last_lens, _ = server.commit._limits.in_graph(PADDED)
    assert last_lens.tolist() == [-1] * PADDED


def shifted_drafter(server: Server) -> None:
    server.drafter_pool.copy_(server.drafter_pool.roll(1, dims=0))


def unmoved(server: Server) -> None:
    """As if the target's rows had stayed where they were: the first sibling's row stands behind the root's."""
    for layer in server.pool:
        slots = server.trees.slots[:PADDED]
        layer[slots[:, 1]] = layer[slots[:, 2]]


def said(server: Server) -> Walk:
    """What the graph says of its paths."""
    return Walk.over(server.commit.guarded["walks"].tensor[: Walk.words(PADDED, BLOCK)], PADDED, BLOCK)


def say_lens(server: Server, lens: int) -> None:
    said(server).lens.fill_(lens)


def along_the_chain(server: Server) -> None:
    said(server).path[:, 1] -= WIDTH - 2


def longer(server: Server) -> None:
    say_lens(server, 3)


@pytest.mark.parametrize(
    ("rule", "server"),
    [
        ("commit-path", Server(commits=False)),
        ("commit-is-eager", Server(after_graph=shifted_drafter)),
        ("kv-moved", Server(after_graph=unmoved)),
        ("commit-path", Server(after_graph=longer)),
        ("commit-path", Server(after_graph=along_the_chain)),
    ],
)
def test_a_graph_that_keeps_something_else_is_named(rule: str, server: Server) -> None:
    with pytest.raises(RuleBroken, match=f"ddtree rule {rule} is broken"):
        server.examine()


def test_a_graph_that_commits_nobodys_rows_is_named() -> None:
    def deaf(server: Server) -> None:
        """As if it did not read whom to commit."""
        say_lens(server, 2)

    with pytest.raises(RuleBroken, match="ddtree rule commit-nobody is broken"):
        Server(after_graph=deaf).examine()


def test_graphs_that_do_not_commit_a_plain_batch_are_named() -> None:
    server = Server()
    server.model_runner.decode_cuda_graph_runner.max_bs = BATCH - 1
    with pytest.raises(RuleBroken, match="ddtree rule commit-in-graph is broken"):
        server.examine()
