"""Watching an operation that the host carries out: a lost connection is taken up again, never repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .errors import Unreachable
from .remote import Agent, Connect

Report = Callable[[dict[str, Any]], None]

PATIENCE_S = 120.0
_AGAIN_S = 1.0


def follow(
    agent: Agent, connect: Connect, operation: int, report: Report, patience: float = PATIENCE_S
) -> tuple[dict[str, Any], Agent]:
    """Reports each step of an operation and returns its outcome, as the host has stored it.

    Where the host is lost it is looked for again for ``patience`` seconds, and the steps go on after
    the last one that was seen. Raises Unreachable after that: the operation goes on at the host, only
    its outcome is not known here. Returns the agent as well, since it may be another one by then.
    """
    after, lost_at = -1, None
    while True:
        try:
            for event in agent.events("follow", operation=operation, after=after):
                lost_at = None
                if event["event"] == "result":
                    return event["result"], agent
                after = max(after, event.get("n", after))
                report(event)
        except Unreachable as error:
            now = time.monotonic()
            if lost_at is None:
                lost_at = now
                report({"event": "lost", "what": error.what, "why": error.why})
            if now - lost_at > patience:
                raise Unreachable(
                    f"{agent.host.name} was lost during operation {operation}; the host goes on alone",
                    f"{error.what}; {error.why}",
                    f"ddops status --host {agent.host.name}, when it can be reached again",
                ) from None
            time.sleep(_AGAIN_S)
            agent.close()
            agent = connect()
