"""How long nobody will be served: the steps between the closed front and the open one, as they were last measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_GATES = ("ready", "smoke", "lossless", "acceptance", "throughput")


@dataclass(frozen=True)
class Downtime:
    """Seconds of each part; None: never measured on this host."""

    parts: dict[str, float | None]

    @property
    def seconds(self) -> float | None:
        """Returns the sum, None where a part was never measured."""
        known = [value for value in self.parts.values() if value is not None]
        return round(sum(known), 1) if len(known) == len(self.parts) else None

    def as_json(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "parts": self.parts}

    def __str__(self) -> str:
        parts = [f"{name} {value:.1f}" if value is not None else f"{name} ?" for name, value in self.parts.items()]
        if self.seconds is None:
            return f"not known, a part was never measured here: {', '.join(parts)} s"
        return f"about {self.seconds:.0f} s, as last measured: {' + '.join(parts)} s"


def gates(steps: dict[str, float], suites: Sequence[str]) -> float | None:
    """Returns the seconds of all gates of a deploy, its suites among them; None where one was never measured."""
    wanted = [*_GATES, *(f"eval-{suite}" for suite in suites)]
    return sum(steps[name] for name in wanted) if all(name in steps for name in wanted) else None


def predict(steps: dict[str, float], load: float | None, suites: Sequence[str], *, records: bool) -> Downtime:
    """Returns the prediction from the seconds of the last steps; ``records``: known-good is still to be asked."""
    parts: dict[str, float | None] = {"drain": steps.get("drain")}
    if records:
        parts["record"] = steps.get("record")
    parts |= {
        "stop": steps.get("stop"),
        "load": steps.get("load", load),
        "gates": gates(steps, suites),
    }
    return Downtime(parts)
