"""Watching an operation that the host carries out: a lost connection is taken up again, never repeated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .errors import Interrupted, Unreachable
from .remote import Agent, Connect

Report = Callable[[dict[str, Any]], None]

PATIENCE_S = 120.0
_AGAIN_S = 1.0


@contextmanager
def filing(agent: Agent) -> Iterator[None]:
    """The moment in which the host takes an operation up: Ctrl-C in it leaves that unknown."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted",
            f"{agent.host.name} may have taken the operation up: then it carries it out alone",
            "ddops status",
        ) from None


@dataclass
class _Seen:
    """What was heard of an operation: its last event and step, and since when the host is lost."""

    after: int = -1
    step: str = "none"
    lost_at: float | None = None

    def take(self, event: dict[str, Any]) -> None:
        self.after = max(self.after, event.get("n", self.after))
        self.step = event.get("step", self.step)


def follow(
    agent: Agent, connect: Connect, operation: int, report: Report, patience: float = PATIENCE_S
) -> tuple[dict[str, Any], Agent]:
    """Reports each step of an operation and returns its outcome, as the host has stored it.

    Where the host is lost it is looked for again for ``patience`` seconds, and the steps go on after
    the last one that was seen. Raises Unreachable after that: the operation goes on at the host, only
    its outcome is not known here; and Interrupted at Ctrl-C, which ends nothing but this watching.
    Returns the agent as well, since it may be another one by then.
    """
    seen = _Seen()
    try:
        while True:
            try:
                for event in agent.events("follow", operation=operation, after=seen.after):
                    seen.lost_at = None
                    if event["event"] == "result":
                        return event["result"], agent
                    seen.take(event)
                    report(event)
            except Unreachable as error:
                if seen.lost_at is None:
                    seen.lost_at = time.monotonic()
                    report({"event": "lost", "what": error.what, "why": error.why})
                if time.monotonic() - seen.lost_at > patience:
                    raise Unreachable(
                        f"{agent.host.name} was lost during operation {operation}; the host goes on alone",
                        f"{error.what}; {error.why}",
                        f"ddops status --host {agent.host.name}, when it can be reached again",
                    ) from None
                time.sleep(_AGAIN_S)
                agent.close()
                agent = connect()
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted: nobody watches operation {operation} any more",
            f"it goes on at {agent.host.name}, at step {seen.step} when last heard of, and ends by itself",
            "ddops status tells how it went; ddops rollback ends a trial",
        ) from None
