"""Drills: deliberate faults that prove that detection and rollback work on this host. Off unless asked for."""

from __future__ import annotations

import os

from ..hooks import Hook
from ..say import say
from ..settings import Drill
from . import garbage, illegal_access

_MAKERS = {"illegal-access": illegal_access.hook, "garbage": garbage.hook}


def hook(drill: Drill) -> Hook:
    return _MAKERS[drill.name](drill.after_steps)


def announce(drill: Drill, tp_rank: int | None) -> None:
    """Whoever reads the journal must be able to tell a drill from a fault."""
    content = {"name": drill.name, "after_steps": drill.after_steps, "tp_rank": tp_rank, "pid": os.getpid()}
    say("ddops_drill", content)
