"""How long a cell takes, from the host's last measured steps, and then from the study's own cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from ..downtime import gates
from .result import Result


@dataclass(frozen=True)
class Prediction:
    """Seconds of each part of a cell, as last measured on this host; None: never measured there.

    Nobody is served in any of them.
    """

    parts: dict[str, float | None]

    @property
    def seconds(self) -> float:
        """Returns the sum of what is known."""
        return sum(value for value in self.parts.values() if value is not None)

    @property
    def missing(self) -> list[str]:
        return [name for name, value in self.parts.items() if value is None]

    def as_json(self) -> dict[str, Any]:
        return {"seconds": round(self.seconds, 1), "parts": self.parts, "never_measured": self.missing}

    def __str__(self) -> str:
        return " + ".join(f"{name} {'?' if value is None else f'{value:.1f}'}" for name, value in self.parts.items())


def predict(steps: dict[str, float], load: float | None, suites: Sequence[str]) -> Prediction:
    """Returns a cell's prediction from the seconds of the last steps; to return takes a load where none was seen."""
    loads = steps.get("load", load)
    back = steps.get("return", loads)
    return Prediction(
        {
            "drain": steps.get("drain"),
            "stop": steps.get("stop"),
            "load": loads,
            "gates": gates(steps, suites),
            "measure": steps.get("measure"),
            "return": None if back is None else back + steps.get("end-trial", 0.0),
        }
    )


def cell_seconds(predicted: Prediction, results: Sequence[Result]) -> float:
    """Returns what the next cell is expected to take: as the study's own did, where it has any."""
    own = [result.seconds for result in results if result.status == "good" and result.seconds]
    return mean(own) if own else predicted.seconds


def in_words(seconds: float) -> str:
    """Returns a time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
