"""Watching an operation that the host carries out: a lost connection is taken up again, never repeated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .copies import Copy
from .errors import DdopsError, Interrupted, Refused, Unreachable, UsageError
from .remote import Agent, Connect

Report = Callable[[dict[str, Any]], None]

PATIENCE_S = 120.0
_AGAIN_S = 1.0


def carry_out(
    agent: Agent, connect: Connect, report: Report, patience: float, call: str, **args: Any
) -> dict[str, Any]:
    """Has the host carry out an operation: files it, reports each step, returns the outcome that the host has stored.

    Raises as ``file`` and ``follow``; Ctrl-C at any moment says that the host may go on alone.
    """
    try:
        filed, events = file(agent, call, **args)
        report(filed)
        return follow(agent, connect, filed["operation"], report, patience, events)[0]
    except KeyboardInterrupt:  # after the answer and before anybody followed
        raise _interrupted(agent) from None


def file(agent: Agent, call: str, **args: Any) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Makes the call that begins an operation; returns what the host filed, and the operation's events for ``follow``.

    Raises Unreachable or Interrupted where it may be under way all the same: the answer did not come.
    """
    try:
        copy = Copy(agent.host.name, agent.service).known()
        filed, events = agent.until("filed", call, **args, copy=copy)
    except Unreachable as error:
        raise Unreachable(
            f"{agent.host.name} was lost while the operation was being filed; if it was, the host goes on alone",
            f"{error.what}; {error.why}",
            _look_again(agent),
        ) from None
    except KeyboardInterrupt:
        raise _interrupted(agent) from None
    return filed, events


def _interrupted(agent: Agent) -> Interrupted:
    return Interrupted(
        "interrupted while the operation was being filed",
        f"if it was, {agent.host.name} carries it out alone",
        f"ddops status --host {agent.host.name}",
    )


@dataclass
class _Seen:
    """What was heard of an operation: its last event and step, and since when the host is lost."""

    filed: bool  # just now, by whoever follows
    after: int = -1
    step: str = "its beginning"
    lost_at: float | None = None

    def take(self, event: dict[str, Any]) -> None:
        self.after = max(self.after, event.get("n", self.after))
        self.step = event.get("step", self.step)


def follow(
    agent: Agent,
    connect: Connect,
    operation: int,
    report: Report,
    patience: float = PATIENCE_S,
    events: Iterator[dict[str, Any]] | None = None,
) -> tuple[dict[str, Any], Agent]:
    """Reports each step of an operation and returns its outcome, as the host has stored it.

    ``events`` is what came along with the answer of the call that filed it; without it the host is asked.

    Where the host is lost it is looked for again for ``patience`` seconds, and the steps go on after
    the last one that was seen. Raises Unreachable after that: the operation goes on at the host, only
    its outcome is not known here; and Interrupted at Ctrl-C, which ends nothing but this watching.
    Returns the agent as well, since it may be another one by then.
    """
    seen, kept = _Seen(events is not None), Copy(agent.host.name, agent.service)
    try:
        while True:
            try:
                if seen.lost_at is not None:
                    agent.close()
                    agent = connect()
                events = events or agent.events("follow", operation=operation, after=seen.after, copy=kept.known())
                for event in events:
                    seen.lost_at = None
                    if event["event"] == "ledger":
                        kept.take(event)  # one that cannot be stored is told where somebody asks for it
                        continue
                    if event["event"] == "result":
                        return event["result"], agent
                    seen.take(event)
                    report(event)
            except (Unreachable, Refused, UsageError) as error:  # the last: a key's file is gone meanwhile
                events = None
                _lost(agent, operation, error, seen, patience, report)
                time.sleep(_AGAIN_S)
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted: nobody watches operation {operation} any more",
            f"it goes on at {agent.host.name}, at {seen.step} when last heard of, and ends by itself",
            "ddops status tells how it went; ddops rollback ends a trial",
        ) from None


def _lost(agent: Agent, operation: int, error: DdopsError, seen: _Seen, patience: float, report: Report) -> None:
    """Reports that the host is lost; raises where looking for it again is of no use, or was of none so long."""
    refused = not isinstance(error, Unreachable)  # the wrong key or no root: waiting does not help
    if refused and seen.lost_at is None and not seen.filed:
        raise error
    now = time.monotonic()
    if seen.lost_at is None:
        seen.lost_at = now
        report({"event": "lost", "what": error.what, "why": error.why})
    if refused or now - seen.lost_at > patience:
        raise Unreachable(
            f"{agent.host.name} was lost in operation {operation}, last seen at {seen.step}; the host goes on alone",
            f"{error.what}; {error.why}" + (f"; {error.hint}" if refused else ""),
            _look_again(agent),
        ) from None


def _look_again(agent: Agent) -> str:
    return f"ddops status --host {agent.host.name}, when it can be reached again"
