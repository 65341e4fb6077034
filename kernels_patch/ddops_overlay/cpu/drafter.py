"""The attention of a DFlash drafter on a CPU is the target's: SGLang would fall back to one for GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def attention_backend(_original: Callable[..., str], **_arguments: Any) -> str:
    return "torch_native"
