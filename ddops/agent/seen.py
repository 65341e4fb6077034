"""What was seen of an engine under watch: kept over the supervisor's lives, and from an operation to the guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import durable
from .layout import Layout


@dataclass(frozen=True)
class Seen:
    """How far an invocation's journal was read, and the scheduler processes that it had."""

    invocation: str
    cursor: str = ""
    schedulers: frozenset[int] = frozenset()

    def store(self, layout: Layout) -> None:
        """Keeps it until the host restarts."""
        kept: dict[str, Any] = {**vars(self), "schedulers": sorted(self.schedulers)}
        durable.write_json(layout.seen, kept)


def seen(layout: Layout, invocation: str) -> Seen:
    """Returns what was kept of an invocation; nothing where another was the last one under watch."""
    kept = durable.read_json(layout.seen) or {}
    if kept.get("invocation") != invocation:
        return Seen(invocation)
    return Seen(invocation, str(kept["cursor"]), frozenset(kept["schedulers"]))
