"""What this host has seen of a combination: profile, SGLang, overlay, model, algorithm, budget, graphs.

A combination that was rolled back for its own fault is proven bad on the stack that it ran on; on another overlay,
SGLang, environment or model it is a warning.
"""

from __future__ import annotations

from typing import Any

from . import steplog
from .layout import Layout

# a trial that failed in one of these steps is bad itself, not its surroundings or somebody's mind
_PROOF_OF_BAD = (
    *("load", "ready", "smoke", "lossless", "acceptance", "throughput", "measure", "open", "soak"),
    *("eval-coding", "eval-garbage", "eval-load"),
)
_SETTINGS = ("profile", "budget", "graphs")
_STACK = ("algorithm", "sglang", "overlay", "environment", "model")


def combination(summary: dict[str, Any], stack: dict[str, Any] | None) -> dict[str, Any]:
    """Returns what evidence is told by, from a release's summary and the stack that is below it."""
    found = {key: summary.get(key) for key in (*_SETTINGS, "algorithm", "overlay")}
    below = stack or summary.get("stack") or {}
    return found | {key: below.get(key) for key in ("sglang", "environment", "model")}


def of(layout: Layout, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the past trials of the same profile, budget and graphs that prove something, the newest first.

    ``other`` names what of the stack was not as in ``wanted``; drills prove nothing.
    """
    found = []
    for outcome in reversed(steplog.outcomes(layout)):
        release = outcome.get("release") or {}
        if outcome.get("kind") != "deploy" or release.get("drill"):
            continue
        was = combination(release, None)
        if any(was[key] != wanted.get(key) for key in _SETTINGS):
            continue
        if verdict := _verdict(outcome):
            found.append(
                {
                    "outcome": verdict,
                    "release": release.get("release"),
                    "algorithm": was["algorithm"],
                    "what": (outcome.get("reason") or {}).get("what", outcome["outcome"]),
                    "ended": outcome.get("ended"),
                    "other": [key for key in _STACK if was[key] != wanted.get(key)],
                }
            )
    return found


def proven_bad(layout: Layout, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the newest proof on this very stack where it is a bad one, None otherwise."""
    newest = next((entry for entry in of(layout, wanted) if not entry["other"]), None)
    return newest if newest and newest["outcome"] == "bad" else None


def _verdict(outcome: dict[str, Any]) -> str | None:
    if outcome["outcome"] in ("promoted", "measured"):
        return "good"
    failed = [step["step"] for step in outcome.get("steps", []) if not step["ok"]]
    bad = outcome["outcome"] in ("rolled-back", "rollback-failed") and failed and failed[0] in _PROOF_OF_BAD
    return "bad" if bad else None
