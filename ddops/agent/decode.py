"""SGLang's lines that tell how it does: that it serves, and the decode line, printed every few steps."""

from __future__ import annotations

import json
import re
from typing import Any

FIRED_UP = "The server is fired up and ready to roll!"  # when all of its processes are there
_LINE = re.compile(r"\bDecode batch[.,\s]")
_FIGURES = {
    "running": re.compile(r"#running-req: (\d+)"),
    "queued": re.compile(r"#queue-req: (\d+)"),
    "accept_len": re.compile(r"accept len: ([\d.]+)"),
    "tokens_per_s": re.compile(r"gen throughput \(token/s\): ([\d.]+)"),
    "graphs": re.compile(r"(?:cuda|cpu|npu) graph: (\w+)"),
}


def is_decode(line: str) -> bool:
    """Says whether a line tells of a decode batch."""
    return bool(_LINE.search(line))


def figures(line: str) -> dict[str, Any]:
    """Returns running, queued, accept_len, tokens_per_s and graphs; None for what the line does not say."""
    found = {name: shape.search(line) for name, shape in _FIGURES.items()}
    return {name: _value(hit[1]) if hit else None for name, hit in found.items()}


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except ValueError:
        return text  # another kind of graph, by its name
