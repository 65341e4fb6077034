"""What known-good answered, how well it speculated, how fast it was: recorded from known-good, never from a trial."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from . import durable, service
from .gates import acceptance, lossless, throughput
from .gates.smoke import smoke
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

    ``quiet`` asks for one that was measured while no users were served.
    """
    found = durable.read_json(layout.references / f"{known_good.number:04d}-{_key(gates)}.json")
    if found is None or found["sha256"] != known_good.sha256:
        return None
    if quiet and not (found["throughput"] or {"quiet": True})["quiet"]:
        return None
    baseline: dict[str, Any] = found
    return baseline


def record(layout: Layout, known_good: Release, gates: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Asks known-good, which serves now, and stores what it answers; raises GateFailed for a wrong answer."""
    engine = service.engine_of(known_good)
    smoke(engine, gates["smoke"], timeout)
    speculates = known_good.manifest["engine"]["speculates"]
    baseline = {
        "release": known_good.number,
        "sha256": known_good.sha256,
        "references": lossless.record(engine, gates["lossless"], timeout),
        "acceptance": acceptance.measure(engine, gates["acceptance"], timeout) if speculates else None,
        "throughput": throughput.measure(engine, gates["throughput"], timeout) if "throughput" in gates else None,
    }
    durable.make_directory(layout.references, 0o700)
    durable.write_json(layout.references / f"{known_good.number:04d}-{_key(gates)}.json", baseline)
    return baseline
