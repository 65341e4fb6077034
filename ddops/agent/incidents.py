"""The record of incidents after promotion: what the engine showed, and what was done about it."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from . import steplog
from .layout import Layout


def record(layout: Layout, incident: dict[str, Any]) -> None:
    """Appends an incident, with the time; on a full disk it was acted on all the same."""
    with contextlib.suppress(OSError), open(layout.incidents, "a") as file:
        file.write(json.dumps({"time": steplog.now(), **incident}) + "\n")
        file.flush()
        os.fsync(file.fileno())


def of(layout: Layout) -> list[dict[str, Any]]:
    """Returns the incidents, the oldest first; a damaged line is left out."""
    found = []
    with contextlib.suppress(OSError):
        for line in layout.incidents.read_text().splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return found
