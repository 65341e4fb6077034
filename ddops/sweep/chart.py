"""Tokens a second over budgets as a plot of plain characters, for terminals, pipes and tickets."""

from __future__ import annotations

from typing import Any

from .cells import of_json
from .rows import rows
from .study import Study

_BARS = 34
_WORDS = {"bad": "FAILED", "known-bad": "proven bad here", "unknown": "could not be told"}


def chart(study: Study, concurrency: int) -> list[str]:
    """Returns a bar for each cell that was measured at a concurrency, of at most 80 columns.

    ``#`` is measured, ``|`` where the projection is; a cell that has no bar says why.
    """
    found = [row for row in rows(study) if row["concurrency"] == concurrency and row["status"] != "impossible"]
    top = max((max(row["tok_s"] or 0, row["projected_tok_s"] or 0) for row in found), default=0)
    if not top or not any(row["tok_s"] for row in found):
        return []
    lines: list[str] = []
    line = None
    for row in found:
        if (now := of_json(row).line) != line:
            line = now
            lines.append(f"tok/s at {concurrency} (| projected): {line}")
        lines.append(f"{row['budget']:>6}  {_bar(row, top)}".rstrip())
    return lines


def _bar(row: dict[str, Any], top: float) -> str:
    def at(value: float) -> int:
        return max(1, round(value / top * _BARS))

    cells = list(" " * (_BARS + 1))
    if row["tok_s"]:
        cells[: at(row["tok_s"])] = "#" * at(row["tok_s"])
    if row["projected_tok_s"]:
        cells[at(row["projected_tok_s"])] = "|"
    accept = f", accept {row['accept_length']:.2f}" if row["tok_s"] and row["accept_length"] else ""
    says = f"{row['tok_s']:.1f}{accept}" if row["tok_s"] else _WORDS.get(row["status"], row["status"])
    if row["status"] == "bad":
        says += f": {row['rule'] or row['step']}"
    return f"{''.join(cells)} {says}"
