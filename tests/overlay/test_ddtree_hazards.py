"""The ways in which other ports broke, planted one by one: each must be named by its rule, and a sound step by none.

The attention back-end is SGLang's own, made by hand on the CPU; its Triton kernels run in the interpreter.
What only a captured graph can show is planted in servers on a GPU: benchmarks/device/hazards.py.
"""

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

import toy  # noqa: E402
from ddops_overlay.ddtree.attention import DDTreeTritonAttnBackend  # noqa: E402
from ddops_overlay.ddtree.audit import Audit  # noqa: E402
from ddops_overlay.ddtree.buffers import Guarded, TreeBuffers  # noqa: E402
from ddops_overlay.ddtree.limits import Limits  # noqa: E402
from ddops_overlay.ddtree.ops import walk  # noqa: E402
from ddops_overlay.ddtree.rules import RuleBroken  # noqa: E402
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend  # noqa: E402
from sglang.srt.model_executor.forward_batch_info import ForwardMode  # noqa: E402

BUDGET, BLOCK, BATCH, CONTEXT = 12, 8, 3, 64
WIDTH = BUDGET + 1


def backend(rows: int = BATCH) -> Any:
    made = object.__new__(DDTreeTritonAttnBackend)
    made.num_draft_tokens = WIDTH
    made.device = "cpu"
    made.num_head, made.max_kv_splits, made.v_head_dim, made.swa_v_head_dim = 2, 4, 8, None
    made.max_context_len, made.sliding_window_size = CONTEXT, None
    made.skip_prefill, made.is_draft_runner = False, False
    made.use_sliding_window_kv_pool, made._translate_kv_loc = False, None
    made.cuda_graph_custom_mask = None
    made.req_to_token = torch.arange(4 * (CONTEXT + WIDTH), dtype=torch.int32).view(4, -1)
    for name, dtype in (("kv_indptr", torch.int32), ("qo_indptr", torch.int64), ("mask_indptr", torch.int64)):
        setattr(made, name, torch.zeros(rows + 1, dtype=dtype))
    made.window_kv_indptr = None
    made.trees, made.depth = TreeBuffers(rows, WIDTH, "cpu"), BLOCK - 1
    return made


class Server:
    """A DDTREE target whose graphs were captured: what the audit reads of one."""

    def __init__(self) -> None:
        self.backend = backend()
        self.backend.init_cuda_graph_state(BATCH, BATCH * WIDTH)
        self.trees, self.width, self.block_size = self.backend.trees, WIDTH, BLOCK
        self.settings = SimpleNamespace(audit=True)
        self.graphs_are_on = True
        buffers = SimpleNamespace(
            **{name: torch.zeros(8) for name in ("input_ids", "positions", "out_cache_loc", "seq_lens")},
            req_pool_indices=torch.zeros(8),
        )
        self.graphs = SimpleNamespace(captured_req_width=WIDTH, max_bs=BATCH, buffers=buffers)
        self.model_runner = SimpleNamespace(
            attn_backend=self.backend,
            decode_cuda_graph_runner=self.graphs,
            model_config=SimpleNamespace(vocab_size=1000),
            req_to_token_pool=SimpleNamespace(req_to_token=self.backend.req_to_token),
            token_to_kv_pool=SimpleNamespace(size=4000, page_size=1),
        )
        self.commit = toy.Worker().commit
        self.audit = Audit(self)
        self.prefix = torch.tensor([5, 9, 30])

    def step(self) -> None:
        """One replay as the graph does it: a tree of two branches, its rows, its mask."""
        tree = self.trees.of(BATCH)
        node = torch.arange(WIDTH)
        chain = (node >= 1) & (node < BLOCK)
        tree.tokens.copy_(node * 3)
        tree.parents.copy_(torch.where(chain, node - 1, 0))
        tree.parents[:, 0] = -1
        tree.depths.copy_(torch.where(chain, node, 1))
        tree.depths[:, 0] = 0
        self.trees.positions[:BATCH] = self.prefix[:, None] + tree.depths
        self.trees.slots[:BATCH] = torch.arange(BATCH * WIDTH).view(BATCH, WIDTH) + 100
        forward_batch = SimpleNamespace(
            batch_size=BATCH, seq_lens=self.prefix, forward_mode=ForwardMode.TARGET_VERIFY, spec_info=None
        )
        self.backend._update_target_verify_buffers(BATCH, self.prefix, torch.arange(BATCH), None)
        self.backend.init_forward_metadata_in_graph(forward_batch)

    def check(self, replayed: bool = True) -> None:
        self.audit.after_verify(BATCH, self.prefix, replayed)


@pytest.fixture
def server() -> Server:
    server = Server()
    server.step()
    return server


def test_a_sound_step_breaks_no_rule(server: Server) -> None:
    server.check()
    server.step()
    server.check()


def second_bytes(server: Server) -> int:
    """Where the mask of the second request begins."""
    return WIDTH * (5 + WIDTH)


def blind(server: Server) -> None:
    row = second_bytes(server) + 4 * (9 + WIDTH)
    server.backend.cuda_graph_custom_mask[row + 9 + 4] = 0


def stale(server: Server) -> None:
    """Another tree is planted, and nobody writes its mask."""
    server.trees.of(BATCH).parents[1, 9] = 3
    server.trees.of(BATCH).depths[1, 9] = 4
    server.trees.positions[1, 9] = 9 + 4


def sibling_seen(server: Server) -> None:
    row = second_bytes(server) + 10 * (9 + WIDTH)
    server.backend.cuda_graph_custom_mask[row + 9 + 9] = 1


def moved(server: Server) -> None:
    server.backend.cuda_graph_kv_indices = server.backend.cuda_graph_kv_indices.clone()


def moved_graph_buffer(server: Server) -> None:
    server.graphs.buffers.positions = server.graphs.buffers.positions.clone()


def moved_drafter_buffer(server: Server) -> None:
    """As SGLang does when a batch is larger than any before."""
    server.commit._worker._ensure_draft_block_buffers(20)


def overrun_walk(server: Server) -> None:
    words = server.commit.guarded["walks"].tensor
    words.as_strided((1,), (1,), words.storage_offset() + words.numel()).fill_(7)


def overrun(server: Server) -> None:
    mask = server.backend.cuda_graph_custom_mask
    mask.as_strided((1,), (1,), mask.storage_offset() + mask.numel()).fill_(1)


def underrun(server: Server) -> None:
    tokens = server.trees.guarded["tokens"].tensor
    tokens.as_strided((1,), (1,), tokens.storage_offset() - 1).fill_(1)


def child_first(server: Server) -> None:
    server.trees.of(BATCH).parents[0, 1] = 2


def rooted(server: Server) -> None:
    server.trees.of(BATCH).parents[2, 0] = 0


def floating(server: Server) -> None:
    server.trees.of(BATCH).depths[0, 4] = 2


def chain_positions(server: Server) -> None:
    server.trees.positions[:BATCH] = server.prefix[:, None] + torch.arange(WIDTH)


def shared_slot(server: Server) -> None:
    server.trees.slots[2, 3] = server.trees.slots[0, 3]


def slot_outside(server: Server) -> None:
    server.trees.slots[0, 0] = 4001


def token_outside(server: Server) -> None:
    server.trees.of(BATCH).tokens[0, 5] = 1000


def short_row(server: Server) -> None:
    table = server.model_runner.req_to_token_pool
    table.req_to_token = table.req_to_token[:, : 30 + WIDTH - 1]


def runner_width(server: Server) -> None:
    server.graphs.captured_req_width = BLOCK


def backend_width(server: Server) -> None:
    server.backend.num_draft_tokens = BLOCK


def offsets(server: Server) -> None:
    """As if the rows before had been of another width."""
    server.backend.mask_indptr[2] += 13


@pytest.mark.parametrize(
    ("rule", "plant"),
    [
        ("width", runner_width),
        ("width", backend_width),
        ("self-bit", blind),
        ("mask", stale),
        ("mask", sibling_seen),
        ("mask-offset", offsets),
        ("address", moved),
        ("address", moved_graph_buffer),
        ("address", moved_drafter_buffer),
        ("guard-band", overrun),
        ("guard-band", overrun_walk),
        ("guard-band", underrun),
        ("tree-order", child_first),
        ("tree-root", rooted),
        ("tree-depth", floating),
        ("tree-token", token_outside),
        ("position", chain_positions),
        ("slot", shared_slot),
        ("slot", slot_outside),
        ("request-row", short_row),
    ],
)
def test_a_planted_bug_is_named_by_its_rule(server: Server, rule: str, plant: Callable[[Server], None]) -> None:
    plant(server)
    with pytest.raises(RuleBroken, match=f"^ddtree rule {rule} is broken"):
        server.check()


def test_a_batch_that_has_a_graph_and_ran_without_it_is_a_fault_without_any_audit(server: Server) -> None:
    server.settings.audit = False
    with pytest.raises(RuleBroken, match="graph-replayed"):
        server.check(replayed=False)
    server.graphs.max_bs = BATCH - 1  # no graph was captured for so many
    server.check(replayed=False)


def test_captured_buffers_are_made_once_and_for_the_width_of_the_runner() -> None:
    made = backend()
    with pytest.raises(RuleBroken, match="ddtree rule width"):
        made.init_cuda_graph_state(BATCH, BATCH * BLOCK)
    made.init_cuda_graph_state(BATCH, BATCH * WIDTH)
    with pytest.raises(RuleBroken, match="made-once"):
        made.init_cuda_graph_state(BATCH, BATCH * WIDTH)
    many = backend()
    with pytest.raises(RuleBroken, match="tree-rows"):
        many.init_cuda_graph_state(BATCH + 1, (BATCH + 1) * WIDTH)


def test_a_graph_is_not_captured_without_a_mask() -> None:
    made = backend()
    made.init_cuda_graph_state(BATCH, BATCH * WIDTH)
    with pytest.raises(RuleBroken, match="mask-captured"):
        made._build_cuda_graph_forward_metadata(1, ForwardMode.TARGET_VERIFY, SimpleNamespace(custom_mask=None))


def test_the_mask_holds_the_longest_context_and_decode_scratch_does_not_grow_with_the_width() -> None:
    made = backend()
    made.init_cuda_graph_state(BATCH, BATCH * WIDTH)
    assert made.cuda_graph_custom_mask.numel() >= BATCH * WIDTH * (CONTEXT + WIDTH)
    assert made.cuda_graph_attn_logits.shape[0] == BATCH
    assert made.cuda_graph_kv_indices.numel() == BATCH * CONTEXT
    stock = object.__new__(TritonAttnBackend)
    stock.__dict__.update(backend().__dict__)
    TritonAttnBackend.init_cuda_graph_state(stock, BATCH, BATCH * WIDTH)
    assert stock.cuda_graph_attn_logits.shape[0] == BATCH * WIDTH
    # what SGLang would make is too small near the end of the context
    assert stock.cuda_graph_custom_mask.numel() < BATCH * WIDTH * (CONTEXT + WIDTH)


def test_rows_that_pad_a_graph_write_inside_the_buffer_whatever_an_earlier_step_left() -> None:
    """A batch of one in a graph of three: SGLang pads the prefix with 1, the trees are an older step's."""
    server = Server()
    server.step()
    server.prefix = torch.tensor([CONTEXT, 1, 1])
    server.trees.of(BATCH).parents[1:] = torch.randint(-1, WIDTH, (2, WIDTH), dtype=torch.int32)
    forward_batch = SimpleNamespace(
        batch_size=BATCH, seq_lens=server.prefix, forward_mode=ForwardMode.TARGET_VERIFY, spec_info=None
    )
    server.backend._update_target_verify_buffers(BATCH, server.prefix, torch.arange(BATCH), None)
    server.backend.init_forward_metadata_in_graph(forward_batch)
    assert server.backend.guarded_mask.intact()


def paths(server: Server) -> walk.Walk:
    path = walk.Walk.empty(BATCH, BLOCK, "cpu")
    path.emitted.fill_(3)
    path.path.copy_(torch.arange(BATCH)[:, None] * WIDTH + torch.zeros(BLOCK, dtype=torch.int64))
    path.path[:, 1] += torch.tensor([1, 4, 9])
    path.lens.fill_(2)
    path.bonus.fill_(3)
    return path


def test_a_path_must_stay_in_its_rows_and_ascend(server: Server) -> None:
    server.audit.after_walk(paths(server))
    planted: dict[str, Callable[[walk.Walk], Any]] = {
        "path-row": lambda p: p.path.__setitem__((2, 1), 0),
        "path-order": lambda p: p.path.__setitem__((1, 1), WIDTH),
        "path-length": lambda p: p.lens.fill_(BLOCK + 1),
        "path-token": lambda p: p.bonus.fill_(0x7FFFFFFF),
    }
    for rule, plant in planted.items():
        broken = paths(server)
        plant(broken)
        with pytest.raises(RuleBroken, match=f"ddtree rule {rule} "):
            server.audit.after_walk(broken)


def request(rid: str, prompt: int, new: int | None, **more: Any) -> Any:
    params = SimpleNamespace(max_new_tokens=new, ignore_eos=False, stop_token_ids=None)
    params.__dict__.update(more)
    return SimpleNamespace(rid=rid, origin_input_ids=[0] * prompt, sampling_params=params)


def test_what_was_sent_for_one_batch_is_not_overwritten_for_the_next() -> None:
    """Copies to a GPU may still be under way when the host goes on."""
    limits = Limits({2}, 4, "cpu")
    first = limits.of([request("a", 10, 5), request("b", 4, None, ignore_eos=True, stop_token_ids={7, 8, 9})])
    kept = [t.clone() for t in first]
    again = limits.of([request("a", 10, 5), request("b", 4, None, ignore_eos=True, stop_token_ids={7, 8, 9})])
    assert again[0] is first[0]
    limits.of([request("b", 4, 1)])
    assert all(torch.equal(t, k) for t, k in zip(first, kept, strict=True))
    assert first[0].tolist() == [14, 1 << 40]
    assert first[1].tolist() == [[2, -1, -1, -1], [7, 8, 9, -1]]


def test_a_guard_tells_a_write_past_either_end() -> None:
    guarded = Guarded((3, 5), torch.int32, "cpu")
    guarded.tensor.fill_(-1)
    assert guarded.intact()
    guarded.tensor.as_strided((1,), (1,), guarded.tensor.storage_offset() + 15).fill_(0)
    assert not guarded.intact()
