"""Arguments that cannot serve DDTREE are refused with the reason; of the others the two widths follow."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ddops_overlay.settings import DDTree

pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
pytest.importorskip("sglang")
os.environ["SGLANG_USE_CPU_ENGINE"] = "1"

from ddops_overlay.cpu import plan

plan.activate()

from ddops_overlay.ddtree import arguments  # noqa: E402

SETTINGS = DDTree(budget=16, topk=8)


@pytest.fixture
def server(tmp_path: Path) -> Any:
    drafter = tmp_path / "drafter"
    drafter.mkdir()
    config = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "block_size": 8,
        "dflash_config": {"target_layer_ids": [1], "mask_token_id": 0},
    }
    (drafter / "config.json").write_text(json.dumps(config))
    return SimpleNamespace(
        device="cuda",
        attention_backend="triton",
        prefill_attention_backend=None,
        decode_attention_backend=None,
        page_size=None,
        enable_dp_attention=False,
        pp_size=1,
        dcp_size=1,
        disaggregation_mode="null",
        enable_two_batch_overlap=False,
        enable_pdmux=False,
        enable_lora=False,
        enable_deterministic_inference=False,
        speculative_adaptive=False,
        speculative_num_draft_tokens=None,
        speculative_dflash_block_size=None,
        speculative_draft_attention_backend=None,
        speculative_draft_model_path=str(drafter),
        speculative_draft_model_revision=None,
        speculative_num_steps=None,
        speculative_eagle_topk=None,
        trust_remote_code=False,
        json_model_override_args="{}",
        max_running_requests=None,
        enable_mixed_chunk=True,
        disable_overlap_schedule=False,
    )


def problems(server: Any, **changes: Any) -> list[str]:
    settings = changes.pop("settings", SETTINGS)
    server.__dict__.update(changes)
    return list(arguments.problems(server, settings))


def test_what_fits_is_not_refused(server: Any) -> None:
    assert problems(server) == []
    assert problems(server, speculative_num_draft_tokens=17, page_size=1) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"speculative_num_draft_tokens": 16}, "a budget of 16 verifies 17"),
        ({"speculative_draft_model_path": None}, "needs a DFlash drafter"),
        ({"attention_backend": "flashinfer"}, "prefill attention back-end is flashinfer"),
        ({"decode_attention_backend": "trtllm_mla"}, "decode attention back-end is trtllm_mla"),
        ({"device": "cpu"}, "trees on torch_native only"),
        ({"page_size": 64}, "pages of 64 tokens"),
        ({"enable_dp_attention": True}, "DP attention"),
        ({"pp_size": 2}, "pipeline parallelism"),
        ({"dcp_size": 2}, "decode context parallelism"),
        ({"disaggregation_mode": "decode"}, "disaggregation"),
        ({"enable_two_batch_overlap": True}, "two-batch overlap"),
        ({"enable_pdmux": True}, "PD multiplexing"),
        ({"enable_lora": True}, "LoRA"),
        ({"enable_deterministic_inference": True}, "deterministic inference"),
        ({"speculative_adaptive": True}, "adaptive"),
        ({"settings": DDTree(budget=6, topk=4)}, "a budget of 6 cannot hold the drafter's chain of 7"),
        ({"settings": DDTree(budget=8, topk=9)}, "topk 9 is above the budget of 8"),
        ({"settings": DDTree(budget=8, topk=1)}, "topk 1 at depth 7 makes 7 candidates for a budget of 8"),
        ({"speculative_dflash_block_size": 1}, "block of 1 proposes nothing"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(server: Any, changes: dict[str, Any], reason: str) -> None:
    found = problems(server, **changes)
    assert len(found) >= 1
    assert any(reason in problem for problem in found)


def test_every_reason_is_told_at_once(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(arguments, "refuse", said.append)
    server.__dict__.update(pp_size=2, page_size=16)
    arguments.check(server, SETTINGS)
    assert len(said) == 1
    assert "pages of 16 tokens" in said[0]
    assert "pipeline parallelism" in said[0]


def test_the_target_gets_the_budget_and_its_root_and_the_drafter_keeps_its_block(server: Any) -> None:
    arguments.resolve(server, DDTree(budget=32, topk=8))
    assert server.speculative_num_draft_tokens == 33
    assert server.speculative_dflash_block_size == 8
    assert (server.speculative_num_steps, server.speculative_eagle_topk) == (1, 1)
    assert server.speculative_draft_attention_backend == "triton"
    assert server.max_running_requests == 48
    assert server.enable_mixed_chunk is False
    assert server.disable_overlap_schedule is False
