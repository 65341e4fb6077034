"""How long nobody will be served: the steps between the closed front and the open one, as they were last measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_GATES = ("ready", "smoke", "lossless", "acceptance")


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


def predict(steps: dict[str, float], load: float | None, *, records: bool) -> Downtime:
    """Returns the prediction from the seconds of the last steps; ``records``: known-good is still to be asked."""
    gates = [steps[name] for name in _GATES if name in steps]
    parts: dict[str, float | None] = {"drain": steps.get("drain")}
    if records:
        parts["record"] = steps.get("record")
    parts |= {
        "stop": steps.get("stop"),
        "load": steps.get("load", load),
        "gates": sum(gates) if len(gates) == len(_GATES) else None,
    }
    return Downtime(parts)
