"""Times as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def until(moment: float | None) -> str:
    """Returns when a pause ends, of seconds since the epoch; None: by hand."""
    if moment is None:
        return "until ddops resume"
    return datetime.fromtimestamp(moment, UTC).strftime("until %Y-%m-%dT%H:%M:%SZ")


def seconds(text: str) -> float:
    """Returns a time such as 90, 60s, 10m or 1h in seconds; raises ValueError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text, re.ASCII)
    if not found:
        raise ValueError(f"'{text}' is no time: write 90, 60s, 10m or 1h")
    return float(found[1]) * _UNITS[found[2]]
