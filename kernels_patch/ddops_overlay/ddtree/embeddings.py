"""The drafter's embeddings in its own type: SGLang's eager pass makes bf16 of them whatever the model is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def forward(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    """Around DFlashDraftModel.forward; with a graph the types are the same already."""
    if kwargs.get("input_embeds") is not None:
        kwargs["input_embeds"] = kwargs["input_embeds"].to(model.fc.weight.dtype)
    return original(model, *args, **kwargs)
