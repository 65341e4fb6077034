"""Recording the baseline: known-good is asked what trials are compared with, never a trial."""

from __future__ import annotations

from typing import Any

from . import baseline, service, stack
from .gates import acceptance, lossless, throughput
from .gates.smoke import smoke
from .layout import Layout
from .releases import Release


def record(
    layout: Layout, known_good: Release, gates: dict[str, Any], timeout: float, *, alone: bool
) -> dict[str, Any]:
    """Asks known-good, which serves now, and stores what it answers; raises GateFailed for a wrong answer.

    Where it is not ``alone``, since users can reach it, how fast it was is no measure: a deploy measures it again.
    """
    engine = service.engine_of(known_good)
    smoke(engine, gates["smoke"], timeout)
    speculates = known_good.manifest["engine"]["speculates"]
    found: dict[str, Any] = {
        "release": known_good.number,
        "sha256": known_good.sha256,
        "driver": stack.driver(),
        "references": lossless.record(engine, gates["lossless"], timeout),
        "acceptance": acceptance.measure(engine, gates["acceptance"], timeout) if speculates else None,
        "throughput": throughput.measure(engine, gates["throughput"], timeout) if "throughput" in gates else None,
    }
    if found["throughput"] and not alone:
        found["throughput"]["quiet"] = False
    baseline.store(layout, found, gates)
    return found
