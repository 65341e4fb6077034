"""A rollback, from the client's side: nothing but the host's name and SSH is needed."""

from __future__ import annotations

from typing import Any

from . import following, render
from .following import Report
from .remote import Agent, Connect


def run(
    agent: Agent,
    connect: Connect,
    to: int | None,
    report: Report,
    *,
    wait: bool,
    patience: float = following.PATIENCE_S,
) -> dict[str, Any]:
    """Goes back to known-good, or to a promoted release; ends a trial that is under way.

    Returns the outcome that the host has stored or, without ``wait``, the operation's number alone.
    """
    asked = {"to": to, "by": render.requester()}
    if wait:
        return following.carry_out(agent, connect, report, patience, "rollback", **asked)
    filed, _ = following.file(agent, "rollback", **asked)
    report(filed)
    return {key: value for key, value in filed.items() if key != "event"}
