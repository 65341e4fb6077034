"""A drafter on disk: what SGLang loads, and what training goes on from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from .model import Drafter
from .shape import Shape


def export(drafter: Drafter, folder: Path) -> None:
    """Writes model.safetensors (bf16) and config.json, each of them whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: value.detach().to("cpu", torch.bfloat16).contiguous() for name, value in drafter.named_parameters()
    }
    save_file(weights, str(folder / "model.safetensors.new"), metadata={"format": "pt"})
    os.replace(folder / "model.safetensors.new", folder / "model.safetensors")
    (folder / "config.json.new").write_text(json.dumps(drafter.shape.checkpoint_config(), indent=1) + "\n")
    os.replace(folder / "config.json.new", folder / "config.json")


def read(folder: Path, shape: Shape) -> Drafter:
    """Returns an exported drafter; raises ValueError where its weights are not those of the shape."""
    drafter = Drafter(shape)
    weights = load_file(str(folder / "model.safetensors"))
    if set(weights) != {name for name, _ in drafter.named_parameters()}:
        raise ValueError(f"{folder} holds another drafter's weights")
    drafter.load_state_dict({name: value.float() for name, value in weights.items()})
    return drafter


def save(path: Path, state: dict[str, Any]) -> None:
    """Stores the state of a training, whole or not at all."""
    torch.save(state, str(path) + ".new")
    os.replace(str(path) + ".new", path)


def resume(path: Path) -> dict[str, Any] | None:
    """Returns the state that was stored, None where there is none."""
    if not path.exists():
        return None
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state
