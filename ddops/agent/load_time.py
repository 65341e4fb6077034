"""How long a release's load took: a plan tells it, and a later load's deadline is made of it."""

from __future__ import annotations

from . import durable
from .layout import Layout
from .releases import Release

_FILE = "load.json"


def last(layout: Layout) -> float | None:
    """Returns the seconds of the last load that came to its end, None before the first."""
    found = durable.read_json(layout.root / _FILE)
    return float(found["seconds"]) if found else None


def note(layout: Layout, release: Release, seconds: float) -> None:
    """Keeps the seconds of a load that came to its end."""
    durable.write_json(layout.root / _FILE, {"release": release.number, "seconds": seconds})
