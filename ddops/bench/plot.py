"""Plots of characters."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = " ▁▂▃▄▅▆▇█"


def bars(values: Sequence[float]) -> str:
    """Returns one character a value, its height relative to the greatest."""
    top = max(values, default=0.0)
    return "".join(_LEVELS[max(1, round(v / top * 8)) if v > 0 else 0] for v in values)
