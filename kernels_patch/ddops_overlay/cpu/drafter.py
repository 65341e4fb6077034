"""A DFlash drafter on a CPU: SGLang 0.5.16 knows only GPU attention for it, and hands it embeddings in bf16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def attention_backend(_original: Callable[..., str], **_arguments: Any) -> str:
    """The target's; SGLang would fall back to one for GPUs."""
    return "torch_native"


def forward(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    """The embeddings in the weights' type: SGLang's eager pass makes bf16 of them whatever the model is in."""
    if kwargs.get("input_embeds") is not None:
        kwargs["input_embeds"] = kwargs["input_embeds"].to(model.fc.weight.dtype)
    return original(model, *args, **kwargs)
