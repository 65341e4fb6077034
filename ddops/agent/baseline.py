"""What known-good answered, how well it speculated, how fast it was, as it was recorded."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from . import durable, stack
from .layout import Layout
from .releases import Release

_ASKED = {
    "lossless": ("prompts", "tokens", "concurrency"),
    "acceptance": ("prompts", "tokens"),
    "throughput": ("prompts", "tokens", "repeats"),  # a release of an earlier ddops has none
}


def _settings(gates: dict[str, Any]) -> dict[str, Any]:
    return {gate: {k: gates[gate][k] for k in keys} for gate, keys in _ASKED.items() if gate in gates}


def _key(gates: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(_settings(gates), sort_keys=True).encode()).hexdigest()[:16]


def stored(layout: Layout, known_good: Release, gates: dict[str, Any], *, quiet: bool = False) -> dict[str, Any] | None:
    """Returns the baseline of known-good for these prompts, None where it is yet to be recorded.

    ``quiet`` asks for one whose speed is comparable today: measured while no users were served, under this driver.
    """
    found = durable.read_json(layout.references / f"{known_good.number:04d}-{_key(gates)}.json")
    if found is None or found["sha256"] != known_good.sha256:
        return None
    if quiet and found["throughput"] and not (found["throughput"]["quiet"] and found.get("driver") == stack.driver()):
        return None
    baseline: dict[str, Any] = found
    return baseline


def store(layout: Layout, baseline: dict[str, Any], gates: dict[str, Any]) -> None:
    """Stores what was measured of the release that ``baseline`` names, for these prompts."""
    durable.make_directory(layout.references, 0o700)
    durable.write_json(layout.references / f"{baseline['release']:04d}-{_key(gates)}.json", baseline)
