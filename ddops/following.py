"""Watching an operation that the host carries out: a lost connection is taken up again, never repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .errors import Refused, Unreachable
from .remote import Agent, Connect

Report = Callable[[dict[str, Any]], None]

PATIENCE_S = 120.0
_AGAIN_S = 1.0


def file(agent: Agent, call: str, **args: Any) -> dict[str, Any]:
    """Makes the call that begins an operation; raises Unreachable saying that it may be under way all the same."""
    try:
        filed: dict[str, Any] = agent.ask(call, **args)
    except Unreachable as error:
        raise Unreachable(
            f"{agent.host.name} was lost while the operation was being filed; if it was, the host goes on alone",
            f"{error.what}; {error.why}",
            _look_again(agent),
        ) from None
    return filed


def follow(
    agent: Agent, connect: Connect, operation: int, report: Report, patience: float = PATIENCE_S
) -> tuple[dict[str, Any], Agent]:
    """Reports each step of an operation and returns its outcome, as the host has stored it.

    Where the host is lost it is looked for again for ``patience`` seconds, and the steps go on after
    the last one that was seen. Raises Unreachable after that: the operation goes on at the host, only
    its outcome is not known here. Returns the agent as well, since it may be another one by then.
    """
    after, lost_at, at = -1, None, "its beginning"
    while True:
        try:
            for event in agent.events("follow", operation=operation, after=after):
                lost_at = None
                if event["event"] == "result":
                    return event["result"], agent
                after, at = max(after, event.get("n", after)), event.get("step", at)
                report(event)
        except (Unreachable, Refused) as error:
            refused = isinstance(error, Refused)
            if refused and lost_at is None:
                raise
            now = time.monotonic()
            if lost_at is None:
                lost_at = now
                report({"event": "lost", "what": error.what, "why": error.why})
            if refused or now - lost_at > patience:  # the wrong key or no root: waiting does not help
                name = agent.host.name
                raise Unreachable(
                    f"{name} was lost during operation {operation}, last seen at {at}; the host goes on alone",
                    f"{error.what}; {error.why}" + (f"; {error.hint}" if refused else ""),
                    _look_again(agent),
                ) from None
            time.sleep(_AGAIN_S)
            agent.close()
            agent = connect()


def _look_again(agent: Agent) -> str:
    return f"ddops status --host {agent.host.name}, when it can be reached again"
