"""What a drafter is made of, and the configuration that SGLang's DFlashDraftModel reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """Sizes of a drafter. ``taps`` are the target's layers whose outputs it sees; ``block`` counts the root."""

    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    block: int
    taps: tuple[int, ...]
    mask_token: int
    vocab: int
    target_layers: int
    max_positions: int
    rope_theta: float = 100000.0
    eps: float = 1e-5

    @property
    def depth(self) -> int:
        """Tokens that one pass proposes."""
        return self.block - 1

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def checkpoint_config(self) -> dict[str, Any]:
        """Returns config.json as SGLang 0.5.16 wants it (models/dflash.py, speculative/dflash_utils.py)."""
        return {
            "architectures": ["DFlashDraftModel"],
            "model_type": "qwen3",
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "num_hidden_layers": self.layers,
            "num_target_layers": self.target_layers,
            "vocab_size": self.vocab,
            "hidden_act": "silu",
            "rms_norm_eps": self.eps,
            "rope_theta": self.rope_theta,
            "max_position_embeddings": self.max_positions,
            "attention_bias": False,
            "torch_dtype": "bfloat16",
            "block_size": self.block,
            "dflash_config": {"mask_token_id": self.mask_token, "target_layer_ids": list(self.taps)},
        }


def for_target(config: dict[str, Any], *, layers: int, block: int, taps: tuple[int, ...], mask_token: int) -> Shape:
    """Returns the shape of a drafter for a Llama-like target: its hidden size, heads and rotation.

    Raises ValueError for taps that the target does not have, a mask token outside of its vocabulary, or no rope_theta.
    """
    count = int(config["num_hidden_layers"])
    if not taps or any(not 0 <= tap < count for tap in taps):
        raise ValueError(f"taps {taps} are not all layers of a target of {count}")
    if not 0 <= mask_token < int(config["vocab_size"]):
        raise ValueError(f"mask token {mask_token} is outside of a vocabulary of {config['vocab_size']}")
    heads = int(config["num_attention_heads"])
    # transformers 5 writes the rotation into an object of its own
    rotation = config.get("rope_parameters") or config
    if "rope_theta" not in rotation:
        raise ValueError("the target's configuration has no rope_theta")
    return Shape(
        hidden=int(config["hidden_size"]),
        inner=int(config["intermediate_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads", heads)),
        head_dim=int(config.get("head_dim") or int(config["hidden_size"]) // heads),
        layers=layers,
        block=block,
        taps=taps,
        mask_token=mask_token,
        vocab=int(config["vocab_size"]),
        target_layers=count,
        max_positions=int(config["max_position_embeddings"]),
        rope_theta=float(rotation["rope_theta"]),
        eps=float(config["rms_norm_eps"]),
    )
