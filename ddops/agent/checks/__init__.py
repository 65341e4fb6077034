"""The parts of ``ddops doctor`` on the host. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import AgentError

Finding = dict[str, Any]


def ok(name: str, found: str) -> Finding:
    """Returns a finding: all is as it must be."""
    return {"name": name, "state": "ok", "found": found, "why": "", "next": ""}


def warn(name: str, found: str, why: str, following: str = "") -> Finding:
    """Returns a finding that does not stand in the way of a deploy."""
    return {"name": name, "state": "warn", "found": found, "why": why, "next": following}


def bad(name: str, found: str, why: str, following: str = "") -> Finding:
    """Returns a finding that a deploy or the way back would fail on."""
    return {"name": name, "state": "bad", "found": found, "why": why, "next": following}


def absent(name: str, found: str) -> Finding:
    """Returns a finding about what this host does not have and does not need."""
    return {"name": name, "state": "not here", "found": found, "why": "", "next": ""}


def guarded(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """Returns what a check found; one that could not be made is itself a bad finding, and the others go on."""
    try:
        return check()
    except AgentError as error:
        return [bad(name, error.what, error.why, error.hint)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [bad(name, f"could not be looked at: {error!r}", "what is not known is not good")]
