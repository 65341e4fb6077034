"""What was seen of an engine under watch: kept over the supervisor's lives, and from an operation to the guard."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from . import durable, processes
from .journal import Journal
from .layout import Layout
from .systemd import Unit


@dataclass(frozen=True)
class Seen:
    """How far an invocation's journal was read, the scheduler processes that it had, whether it has served since its
    start, and whether somebody stops it."""

    invocation: str
    cursor: str = ""
    schedulers: frozenset[int] = frozenset()
    served: bool = False
    stopping: bool = False

    def store(self, layout: Layout) -> None:
        """Keeps it until the host restarts."""
        kept: dict[str, Any] = {**vars(self), "schedulers": sorted(self.schedulers)}
        durable.write_json(layout.seen, kept)


def seen(layout: Layout, invocation: str) -> Seen:
    """Returns what was kept of an invocation; nothing where another was the last one under watch."""
    with contextlib.suppress(ValueError, KeyError, TypeError):  # damaged, or another ddops' of this boot
        kept = durable.read_json(layout.seen) or {"invocation": ""}
        if kept["invocation"] == invocation:
            return Seen(**{**kept, "schedulers": frozenset(kept["schedulers"])})
    return Seen(invocation)


def up_to_now(unit: Unit) -> Seen:
    """Returns what is to be kept of an engine that serves and that nobody has watched: its past is nobody's."""
    with Journal(matches(unit), last=1) as journal:
        cursors = [entry.cursor for entry in journal.entries()]
    schedulers = processes.schedulers(unit.cgroup)
    return Seen(unit.invocation, cursors[-1] if cursors else "", schedulers, served=True)


def matches(unit: Unit) -> list[str]:
    """Returns the journal's matches of the engine's own lines, systemd's about this invocation, the kernel's."""
    return [
        f"_SYSTEMD_INVOCATION_ID={unit.invocation}", "+", f"INVOCATION_ID={unit.invocation}", "_PID=1",
        "+", "_TRANSPORT=kernel",
    ]  # fmt: skip
