"""What a budget should give if a verify step cost the same at every width: tok/s times the ratio of accept lengths.

projected(B) = tok/s(base) x accept(B) / accept(base)

The base is known-good's budget on the same line, else the smallest that was measured there. Where a cell failed, the
accept length of its control, the same with graphs the other way, tells what its crash has cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .result import Result


@dataclass(frozen=True)
class Projection:
    """Tokens a second: projected from ``base``, and how far the measured value is from it (None: not measured)."""

    concurrency: int
    base: int
    accept_length: float
    projected: float
    miss: float | None

    def as_json(self) -> dict[str, Any]:
        return {
            "concurrency": self.concurrency,
            "base_budget": self.base,
            "accept_length": round(self.accept_length, 4),
            "projected_tok_s": round(self.projected, 2),
            "miss": None if self.miss is None else round(self.miss, 4),
        }


def project(tok_s: float, accept_base: float, accept: float) -> float:
    """Returns tokens a second at another accept length, if a step costs the same."""
    return tok_s * accept / accept_base


def projection(
    result: Result, results: Sequence[Result], concurrency: int, known_good: int | None
) -> Projection | None:
    """Returns the projection of a cell at a concurrency, None for the base itself and where figures are missing."""
    base = _base(result, results, concurrency, known_good)
    if base is None or base.cell == result.cell:
        return None
    accept_base, accept = _accept(base, concurrency), _accept(result, concurrency)
    if accept is None:
        control = next((r for r in results if r.cell == result.cell.other_graphs()), None)
        accept = _accept(control, concurrency) if control else None
    row = base.at(concurrency)
    if not accept_base or accept is None or row is None or row["tok_s"] is None:
        return None
    projected = project(float(row["tok_s"]), accept_base, accept)
    measured = (result.at(concurrency) or {}).get("tok_s")
    miss = float(measured) / projected - 1 if measured is not None and projected else None
    return Projection(concurrency, base.cell.budget, accept, projected, miss)


def _base(result: Result, results: Sequence[Result], concurrency: int, known_good: int | None) -> Result | None:
    able = [
        r
        for r in results
        if r.cell.line == result.cell.line
        and r.status == "good"
        and (r.at(concurrency) or {}).get("tok_s")
        and _accept(r, concurrency)
    ]
    return next((r for r in able if r.cell.budget == known_good), min(able, key=lambda r: r.cell.budget, default=None))


def _accept(result: Result, concurrency: int) -> float | None:
    row = result.at(concurrency) or {}
    value = row.get("accept_length")
    return result.accept_length if value is None else float(value)
