"""What the GPUs are doing now, as their driver tells it."""

from __future__ import annotations

from typing import Any

from . import commands

FIELDS = ("power.draw", "power.limit", "utilization.gpu", "utilization.memory")
TIMEOUT_S = 4.0  # a client takes the agent for lost after five silent seconds


def sample(timeout: float = TIMEOUT_S) -> dict[str, Any]:
    """Returns ``gpus``, each by field (watts and per cent; None: not known), and ``problem``, why there are none."""
    try:
        words = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
        answer = commands.ask(words, timeout)
    except OSError:
        return {"gpus": [], "problem": "no nvidia-smi on this host"}
    if answer.code is None:
        return {"gpus": [], "problem": f"nvidia-smi did not end in {timeout:g} s"}
    if answer.code != 0:
        return {"gpus": [], "problem": answer.last_line or f"nvidia-smi ended with {answer.code}"}
    gpus = [parse(line) for line in answer.text.splitlines() if line.strip()]
    return {"gpus": gpus, "problem": "" if gpus else "the driver tells of no GPU"}


def parse(line: str) -> dict[str, float | None]:
    """Returns one GPU's figures by field; None for what is no number, such as [N/A]."""
    values = [value.strip() for value in line.split(",")] + [""] * len(FIELDS)
    return {name: _number(value) for name, value in zip(FIELDS, values)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
