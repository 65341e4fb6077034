"""The brakes of automatic action after promotion: a pause, a cap, and no second restart in a row."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from . import durable, releases, restore, steplog
from .errors import AgentError, Refused
from .layout import Layout
from .releases import Release
from .requests import SUPERVISOR

_DAY_S = 86400.0


@dataclass(frozen=True)
class Policy:
    """What is done about an incident of a promoted engine; from the release's profile.

    ``on_fault`` and ``on_repeat`` are restart, rollback or page; ``repeat_within`` is in seconds; ``cap``
    counts automatic actions in a day.
    """

    on_fault: str
    on_repeat: str
    repeat_within: float
    cap: int
    ask_every: float


def policy_of(release: Release) -> Policy:
    """Returns a release's policy; one that was staged before there were policies is only paged about."""
    told = release.manifest.get("watch")
    return Policy(**told) if told else Policy("page", "page", 0, 0, 15)


@dataclass(frozen=True)
class Decision:
    """What is done, and why that and not what the incident asks for."""

    action: str
    because: str
    to: int | None = None  # the release that a rollback goes to


def decide(layout: Layout, release: Release, wanted: str) -> Decision:
    """Returns what is done about an incident that asks for ``wanted``: ignore, page, restart or rollback."""
    policy = policy_of(release)
    if wanted in ("ignore", "page"):
        return Decision(wanted, "")
    if stop := paused(layout):
        return Decision("page", f"automatic action is paused by {stop['by']}")
    done = _automatic(layout, _DAY_S)
    if len(done) >= policy.cap:
        return Decision("page", f"{len(done)} automatic actions in a day, the cap is {policy.cap}")
    again = [o for o in done if o["kind"] == "restart" and _age_s(o) < policy.repeat_within]
    action = policy.on_repeat if again else policy.on_fault
    if wanted == "rollback" and action == "restart":
        action = "rollback"
    because = f"the restart of {again[-1]['ended']} did not help" if again else ""
    if action != "rollback":
        return Decision(action, because)
    target = _further_back(layout, release)
    if target is None:
        return Decision("page", "there is no whole release to roll back to that was not left before")
    return Decision("rollback", because, target)


def _further_back(layout: Layout, release: Release) -> int | None:
    """Returns the newest promoted release that is whole, has no drill and was left by no automatic rollback before."""
    left = {(o.get("previous") or {}).get("release") for o in steplog.outcomes(layout) if _is_automatic(o, "rollback")}
    for number in reversed(releases.numbers(layout)):
        if number == release.number or number in left:
            continue
        try:
            candidate = releases.load(layout, number)
            if candidate.manifest.get("drill"):
                continue
            if candidate.adopted or (candidate.directory / "promoted.json").exists():
                restore.prove(candidate)
                return number
        except AgentError:
            continue
    return None


def _automatic(layout: Layout, within_s: float) -> list[dict[str, Any]]:
    return [o for o in steplog.outcomes(layout) if _is_automatic(o, "restart", "rollback") and _age_s(o) < within_s]


def _is_automatic(outcome: dict[str, Any], *kinds: str) -> bool:
    return outcome.get("by") == SUPERVISOR and outcome.get("kind") in kinds


def _age_s(outcome: dict[str, Any]) -> float:
    ended = datetime.fromisoformat(outcome["ended"].replace("Z", "+00:00"))
    return (datetime.now(timezone.utc) - ended).total_seconds()


def paused(layout: Layout) -> dict[str, Any] | None:
    """Returns who paused automatic action, since when, until when and why; None where nobody did."""
    try:
        found: dict[str, Any] | None = durable.read_json(layout.paused)
    except ValueError:
        return {"by": "a damaged file", "since": "", "until": None, "reason": str(layout.paused)}
    if found and found["until"] is not None and time.time() > found["until"]:
        return None
    return found


def pause(layout: Layout, by: str, reason: str, seconds: float | None) -> dict[str, Any]:
    """Pauses automatic action after promotion; a deploy is refused meanwhile, a trial that runs goes on.

    Takes the place of a pause that there is, with no moment between them, and returns that one as ``replaces``.
    """
    replaces = paused(layout)
    record = {
        "by": by,
        "reason": reason,
        "since": steplog.now(),
        "until": None if seconds is None else time.time() + seconds,
    }
    durable.write_json(layout.paused, record)
    return {**record, "replaces": replaces}


def resume(layout: Layout) -> dict[str, Any]:
    """Ends a pause; raises Refused where there is none."""
    record = paused(layout)
    if record is None:
        raise Refused(f"{layout.name} is not paused", "nobody paused automatic action", "ddops status")
    durable.remove(layout.paused)
    return record
