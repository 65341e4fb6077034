"""Measured values, and how a table of them looks."""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One thing that was measured several times. ``goal`` holds for the median; None where there is none."""

    name: str
    unit: str
    values: list[float]
    goal: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def record(self) -> dict[str, Any]:
        """Returns the figure as data."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "least": min(self.values),
            "worst": max(self.values),
            "goal": self.goal,
            "values": self.values,
        }


def show(title: str, figures: list[Figure], *, as_json: bool) -> None:
    """Prints figures on stdout, as a table or as one JSON document."""
    if as_json:
        sys.stdout.write(json.dumps({"benchmark": title, "figures": [f.record() for f in figures]}, indent=1) + "\n")
        return
    width = max(len(f.name) for f in figures)
    sys.stdout.write(f"{title}\n{'':{width}}  {'median':>9} {'least':>9} {'worst':>9} {'n':>4}  unit      goal\n")
    for figure in figures:
        goal = "" if figure.goal is None else f"< {figure.goal:g}"
        numbers = " ".join(_number(x) for x in (figure.median, min(figure.values), max(figure.values)))
        sys.stdout.write(f"{figure.name:{width}}  {numbers} {len(figure.values):4}  {figure.unit:8}  {goal}\n")


def _number(value: float) -> str:
    return f"{value:9.1f}" if abs(value) >= 10 else f"{value:9.3f}"
