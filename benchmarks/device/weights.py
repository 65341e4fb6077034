"""Random weights of a DeepSeek-V2 shape that behave like a model's: SGLang's own dummy weights are so small, norms
included, that attention changes nothing, and nothing can be proven on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file


def write(folder: Path, config: dict[str, Any]) -> None:
    """One file of bf16 weights, normal with deviation 0.02; norms are 1. The same on every machine."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    rope, nope, value, latent = (
        config[name] for name in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank")
    )
    generator = torch.Generator("cuda").manual_seed(7)
    weights: dict[str, torch.Tensor] = {}

    def put(name: str, *shape: int, scale: float = 0.02) -> None:
        data = torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32) * scale
        weights[f"{name}.weight"] = data.to(torch.bfloat16).cpu()

    def ones(name: str, size: int) -> None:
        weights[f"{name}.weight"] = torch.ones(size, dtype=torch.bfloat16)

    def mlp(name: str, inner: int) -> None:
        put(f"{name}.gate_proj", inner, hidden)
        put(f"{name}.up_proj", inner, hidden)
        put(f"{name}.down_proj", hidden, inner)

    put("model.embed_tokens", config["vocab_size"], hidden, scale=1.0)
    put("lm_head", config["vocab_size"], hidden, scale=0.1)
    ones("model.norm", hidden)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        ones(f"{layer}.input_layernorm", hidden)
        ones(f"{layer}.post_attention_layernorm", hidden)
        put(f"{layer}.self_attn.q_proj", heads * (nope + rope), hidden)
        put(f"{layer}.self_attn.kv_a_proj_with_mqa", latent + rope, hidden)
        ones(f"{layer}.self_attn.kv_a_layernorm", latent)
        put(f"{layer}.self_attn.kv_b_proj", heads * (nope + value), latent, scale=0.05)
        put(f"{layer}.self_attn.o_proj", hidden, heads * value, scale=0.05)
        if i < config["first_k_dense_replace"]:
            mlp(f"{layer}.mlp", config["intermediate_size"])
            continue
        put(f"{layer}.mlp.gate", config["n_routed_experts"], hidden, scale=0.05)
        mlp(f"{layer}.mlp.shared_experts", config["moe_intermediate_size"] * config["n_shared_experts"])
        for expert in range(config["n_routed_experts"]):
            mlp(f"{layer}.mlp.experts.{expert}", config["moe_intermediate_size"])
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
