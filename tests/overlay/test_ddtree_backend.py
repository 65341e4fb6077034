"""The attention back-end of a DDTREE target, as SGLang calls it: what goes to the overlay's kernel, what to its own."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
pytest.importorskip("sglang")
os.environ["SGLANG_USE_CPU_ENGINE"] = "1"

from ddops_overlay.cpu import plan  # noqa: E402

plan.activate()

from ddops_overlay.ddtree.attention import DDTreeTritonAttnBackend  # noqa: E402
from ddops_overlay.ddtree.ops import tree_attention  # noqa: E402
from ddops_overlay.ddtree.ops.attention_tile import Tile, tile_of  # noqa: E402
from ddops_overlay.ddtree.rules import RuleBroken  # noqa: E402
from ddops_overlay.ddtree.worker import must_be_movable  # noqa: E402
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend  # noqa: E402
from sglang.srt.layers.radix_attention import AttentionType  # noqa: E402
from test_ddtree_attention import SHAPES, case  # noqa: E402

WIDTH, PREFIXES = 9, [150, 3]
SHAPE = SHAPES["mha"]


class Setup:
    """A back-end in the middle of a verification, and one layer of the target."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dtype: Any = torch.float16) -> None:
        monkeypatch.setattr(TritonAttnBackend, "__init__", lambda _self, _runner: None)
        gpu = SimpleNamespace(multi_processor_count=20, major=9)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: gpu)
        self.inputs = case(1, SHAPE, PREFIXES, WIDTH, dtype)
        q, k, v, _, k_pool, v_pool, kv_indptr, slots, mask, starts, _, scale = self.inputs
        self.q, self.k, self.v = (x.flatten(1) for x in (q, k, v))
        self.backend: Any = DDTreeTritonAttnBackend(SimpleNamespace(device="cuda"))
        self.stock_calls: list[tuple[Any, ...]] = []
        self.backend.extend_attention_fwd = lambda *args, **_kwargs: self.stock_calls.append(args)
        self.backend.dcp_size, self.backend.enable_deterministic, self.backend.page_size = 1, False, 1
        self.backend.allow_bidirectional_attention_in_extend = False
        self.backend.token_to_kv_pool = SimpleNamespace(
            get_key_buffer=lambda _layer: k_pool, get_value_buffer=lambda _layer: v_pool
        )
        self.backend.req_to_token_pool = SimpleNamespace(size=16)
        self.backend.forward_metadata = SimpleNamespace(
            **{"kv_indptr": kv_indptr, "kv_indices": slots, "custom_mask": mask, "mask_indptr": starts},
            **{"qo_indptr": torch.arange(3) * WIDTH, "max_extend_len": WIDTH, "window_kv_offsets": None},
            **{"window_kv_indptr": kv_indptr, "window_kv_indices": slots},
        )
        self.layer = SimpleNamespace(
            **{"tp_q_head_num": SHAPE.heads, "qk_head_dim": SHAPE.dq, "v_head_dim": SHAPE.dv, "layer_id": 0},
            **{"k_scale": None, "v_scale": None, "scaling": scale, "logit_cap": 0.0, "logit_capping_method": "tanh"},
            **{"sliding_window_size": -1, "xai_temperature_len": -1, "is_cross_attention": False},
            attn_type=AttentionType.DECODER,
        )
        self.verifies = True

    def forward(self, **more: Any) -> Any:
        mode = SimpleNamespace(is_target_verify=lambda: self.verifies)
        batch = SimpleNamespace(_attn_output=None, forward_mode=mode)
        # the pool has them already, as where the model's own operation stores them
        k, v = (x.view(-1, SHAPE.kv, SHAPE.dq) for x in (self.k, self.v))
        return self.backend.forward_extend(self.q, k, v, self.layer, batch, save_kv_cache=False, **more)


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    return Setup(monkeypatch)


def test_a_verification_goes_to_the_overlays_kernel(setup: Setup) -> None:
    q, k, v, out, *rest = setup.inputs
    tree_attention.reference(q, k, v, out, *rest)
    assert torch.allclose(setup.forward().view_as(out), out, atol=4e-3, rtol=0)
    assert setup.stock_calls == []


@pytest.mark.parametrize(
    "what",
    [
        {"logit_cap": 30.0},
        {"sliding_window_size": 64},
        {"xai_temperature_len": 512},
        {"k_scale": 0.5, "v_scale": 1.0, "k_scale_float": 0.5, "v_scale_float": 1.0},
        {"is_cross_attention": True},
    ],
)
def test_a_layer_that_the_kernel_does_not_do_goes_to_sglangs(setup: Setup, what: dict[str, Any]) -> None:
    setup.layer.__dict__.update(what)
    setup.forward()
    assert len(setup.stock_calls) == 1


def test_rows_that_are_no_whole_trees_go_to_sglangs(setup: Setup) -> None:
    setup.q, setup.k, setup.v = (x[:-1] for x in (setup.q, setup.k, setup.v))
    setup.forward()
    assert len(setup.stock_calls) == 1


def test_sinks_and_a_pass_without_a_tree_go_to_sglangs(setup: Setup) -> None:
    setup.forward(sinks=torch.zeros(SHAPE.heads))
    setup.backend.forward_metadata.custom_mask = None
    setup.forward()
    setup.verifies = False
    setup.forward()
    assert len(setup.stock_calls) == 3


def test_values_that_the_tile_has_no_room_for_go_to_sglangs(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = Setup(monkeypatch, torch.float32)
    wide.forward()
    assert len(wide.stock_calls) == 1

    small = Setup(monkeypatch)
    k_pool, v_pool = (x.to(torch.float8_e4m3fn) for x in small.inputs[4:6])
    small.backend.token_to_kv_pool.get_key_buffer = lambda _layer: k_pool
    small.backend.token_to_kv_pool.get_value_buffer = lambda _layer: v_pool
    small.backend._capability = 12
    small.forward()
    assert len(small.stock_calls) == 1


def test_a_pool_with_scales_of_its_own_is_refused() -> None:
    mha = type("MHATokenToKVPool", (), {})
    must_be_movable(mha())
    for pool in (type("MHATokenToKVPool", (), {"k_scale_buffer": [torch.ones(1)]})(), type("SWAKVPool", (), {})()):
        with pytest.raises(RuleBroken, match="kv-pool"):
            must_be_movable(pool)


def test_the_tile_is_the_measured_one_or_sglangs() -> None:
    mla, gqa = Tile(512, 64, 512, 32, 64, 8), Tile(64, 0, 64, 128, 64, 4)
    assert tile_of(mla, 9) == (512, 64, 512, 64, 32, 8, 2)
    assert tile_of(gqa, 9) == (64, 0, 64, 64, 128, 4, 2)
    assert tile_of(mla, 10) == mla
    assert tile_of(gqa._replace(d=256), 9) == gqa._replace(d=256)
