"""Watching a service for as long as one likes: a lost connection is taken up again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from .errors import Unreachable
from .remote import Agent, Connect

_AGAIN_S = 1.0


def events(agent: Agent, connect: Connect) -> Iterator[dict[str, Any]]:
    """Yields the service's states, steps and incidents without end, and a ``lost`` each time the host is away."""
    known: int | None = None

    def go_on(agent: Agent) -> Iterator[dict[str, Any]]:
        nonlocal known
        for event in agent.events("watch", after=known):
            known = event.get("incidents", event.get("number", known))
            yield event

    yield from _again_and_again(agent, connect, go_on)


def lines(agent: Agent, connect: Connect, release: int | None, last: int) -> Iterator[dict[str, Any]]:
    """Yields the service's last journal entries, then each as it comes, without end; none is left out or told twice.

    A ``lost`` comes each time the host is away, a ``gap`` where entries were gone from its journal by then.
    """
    after = ""

    def go_on(agent: Agent) -> Iterator[dict[str, Any]]:
        nonlocal after
        for event in agent.events("logs", release=release, last=last, follow=True, after=after):
            after = event.get("cursor", after)
            yield event

    yield from _again_and_again(agent, connect, go_on)


def _again_and_again(
    agent: Agent, connect: Connect, go_on: Callable[[Agent], Iterator[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    lost = False
    while True:
        try:
            for event in go_on(agent):
                lost = False
                yield event
        except Unreachable as error:
            if not lost:
                lost = True
                yield {"event": "lost", "what": error.what, "why": error.why}
            time.sleep(_AGAIN_S)
            agent.close()
            agent = connect()
