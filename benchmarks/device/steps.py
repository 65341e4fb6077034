"""The target's pass by width: GPU time of DDTREE, of the stock chain at equal width, and of plain decoding.

    python steps.py SHAPE OUT TOKENIZER SECONDS CONTEXT [NAME ...]

SHAPE is llama-8b or deepseek-v2, with random weights; CONTEXT is the tokens of a prompt, at most 3500; NAMEs are plain,
tree-9, chain-9 ..., all by default.

One server is asked at a time; the others stand idle. Times come from `timing/`, a plug-in on PYTHONPATH.
Exits 1 where one was not measured.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import weights
from ask import together
from servers import Servers

WIDTHS = (9, 13, 17, 33, 65)
BLOCK = 8
WAVE = 4  # servers whose weights are in memory at once

_LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "rope_theta": 500000.0,
}
# DeepSeek-V2-Lite's shape with 5 of its 27 layers: MLA, 64 experts of which 6 work
_DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 5,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "greedy",
    "norm_topk_prob": False,
    "scoring_func": "softmax",
    "routed_scaling_factor": 1.0,
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 102400,
    "rope_theta": 10000.0,
}
_COMMON: dict[str, Any] = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def say(*what: object) -> None:
    print(*what, flush=True)  # noqa: T201


def write_models(folder: Path, shape: str, tokenizer: Path) -> tuple[Path, dict[int, Path]]:
    """The target's folder, and a drafter's for each block size; configurations without weights."""
    target = {**_COMMON, **(_LLAMA if shape == "llama-8b" else _DEEPSEEK)}
    home = folder / "target"
    home.mkdir(parents=True, exist_ok=True)
    for file in tokenizer.glob("tokenizer*"):
        shutil.copy(file, home)
    (home / "config.json").write_text(json.dumps(target))
    if shape != "llama-8b" and not (home / "model.safetensors").exists():
        weights.write(home, target)
    layers = target["num_hidden_layers"]
    drafters = {}
    for block in (BLOCK, *WIDTHS):
        drafters[block] = folder / f"drafter-{block}"
        drafters[block].mkdir(exist_ok=True)
        config = {
            **_COMMON,
            "architectures": ["DFlashDraftModel"],
            "model_type": "qwen3",
            "hidden_size": target["hidden_size"],
            "intermediate_size": 3 * target["hidden_size"],
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "num_hidden_layers": 2,
            "num_target_layers": layers,
            "vocab_size": target["vocab_size"],
            "rope_theta": 10000.0,
            "block_size": block,
            "dflash_config": {"mask_token_id": 16, "target_layer_ids": [1, layers // 2, layers - 2]},
        }
        (drafters[block] / "config.json").write_text(json.dumps(config))
    return home, drafters


def main() -> int:
    shape, out, tokenizer, seconds, context, *names = sys.argv[1:]
    folder, deadline = Path(out), time.monotonic() + float(seconds)
    model, drafters = write_models(folder / "models", shape, Path(tokenizer))
    dummy = ["--load-format", "dummy"] if shape == "llama-8b" else ["--speculative-draft-load-format", "dummy"]
    servers = Servers(folder, ["--model-path", str(model), *dummy])
    timed = "ddops-overlay,step-timing"
    wanted: list[tuple[str, list[str], dict[str, Any] | None]] = [("plain", [], None)]
    for width in WIDTHS:
        path = ["--speculative-draft-model-path", str(drafters[BLOCK])]
        wanted.append((f"tree-{width}", path, {"budget": width - 1}))
        path = ["--speculative-draft-model-path", str(drafters[width])]
        wanted.append((f"chain-{width}", ["--speculative-algorithm", "DFLASH", *path], None))
    wanted = [server for server in wanted if not names or server[0] in names]
    missing = 0
    while wanted and time.monotonic() < deadline - 60:
        wave, wanted = wanted[:WAVE], wanted[WAVE:]
        for name, arguments, ddtree in wave:
            servers.start(name, *arguments, ddtree=ddtree, plugins=timed)
        try:
            # all of them first: one that starts takes the GPU from one that is measured
            ready = [name for name, *_ in wave if servers.wait(name, max(10.0, deadline - time.monotonic()))]
            missing += len(wave) - sum(measure(servers, name, int(context)) for name in ready)
        finally:
            servers.stop()
    # with no time at all the models are what was asked for
    return int(bool(missing or (wanted and float(seconds))))


def measure(servers: Servers, name: str, context: int) -> bool:
    """Says whether there is a figure for each batch."""
    for bs in (1, 8):
        prompts = [[(i * 977 + j * 31) % 30000 + 100 for j in range(context)] for i in range(bs)]
        together(servers.ports[name], prompts, 460)
    lines = [line for line in servers.lines(name, "step_timing") if line["bs"] in (1, 8)]
    for line in lines:
        say(name, json.dumps(line))
    return {line["bs"] for line in lines if line["worker"] == "target"} == {1, 8}


if __name__ == "__main__":
    sys.exit(main())
