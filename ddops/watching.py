"""Watching a service for as long as one likes: a lost connection is taken up again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from .errors import Unreachable
from .remote import Agent, Connect

_AGAIN_S = 1.0


def events(agent: Agent, connect: Connect) -> Iterator[dict[str, Any]]:
    """Yields the service's states, steps and incidents without end, and a ``lost`` each time the host is away."""
    lost, known = False, None
    while True:
        try:
            for event in agent.events("watch", after=known):
                lost = False
                known = event.get("incidents", event.get("number", known))
                yield event
        except Unreachable as error:
            if not lost:
                lost = True
                yield {"event": "lost", "what": error.what, "why": error.why}
            time.sleep(_AGAIN_S)
            agent.close()
            agent = connect()
