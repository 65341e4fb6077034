"""The whole table of rules, and the fast way to the few that a line can match."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from re import Match
from typing import NamedTuple

from .model import Pattern, Rule, compiled
from .rules import (
    cuda,
    cuda_host,
    distributed,
    engine,
    evidence,
    gpu,
    host,
    memory,
    numbers,
    signals,
    startup,
    systemd,
    watchdog,
    xid,
)

_ALL: tuple[Rule, ...] = (
    *cuda.RULES,
    *cuda_host.RULES,
    *gpu.RULES,
    *memory.RULES,
    *numbers.RULES,
    *distributed.RULES,
    *watchdog.RULES,
    *startup.RULES,
    *engine.RULES,
    *systemd.RULES,
    *xid.RULES,
    *host.RULES,
    *evidence.RULES,
    *signals.RULES,
)
RULES: dict[str, Rule] = {rule.name: rule for rule in _ALL}
PATTERNS: tuple[Pattern, ...] = tuple(compiled(rule) for rule in _ALL if rule.looks_like)

# what a match must also fulfil, where an expression cannot say it
JUDGES: dict[str, Callable[[Match[str]], bool]] = {**watchdog.JUDGES, **xid.JUDGES}
# lines of the kernel that name a process: another program's are not ours
OF_A_PROCESS = frozenset((*xid.OF_A_PROCESS, *host.OF_A_PROCESS))
# units of the host whose end concerns every service on it, and the rule that says so
HOST_UNITS = {"systemd-journald.service": "journald-crashed", "nvidia-fabricmanager.service": "fabric-manager"}
is_another_program = host.is_another_program

_NO_DIGITS = {ord(digit): None for digit in "0123456789"}
_SHAPES = 4096  # shapes of lines that are remembered
_STARTS_AND_STOPS = ("sigterm", "received signal", "stopping", "shutting down", "started", "starting", "server_args=")
_SHAPE = 1024  # characters of the longest of them


class Shape(NamedTuple):
    """What is known of every line that differs from this one in its digits alone."""

    candidates: tuple[Pattern, ...]
    decodes: bool
    follows: bool  # it may tell of a start or a stop


class Shapes:
    """Remembers which rules a shape of line can match: the same lines come again with other numbers.

    No anchor holds a digit, so lines of one shape have the same candidates. Most have none.
    """

    def __init__(self) -> None:
        self._known: dict[str, Shape] = {}

    def of(self, text: str) -> Shape:
        """Returns what is known of a text's shape."""
        if len(text) > _SHAPE:
            return shape_of(text.lower())
        key = text.translate(_NO_DIGITS)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _SHAPES:
                self._known.clear()
            known = self._known[key] = shape_of(key.lower())
        return known


def shape_of(low: str) -> Shape:
    """Returns the rules of which an anchor stands in a lower-case text."""
    found = [pattern for pattern in PATTERNS if any(anchor in low for anchor in pattern.rule.anchors)]
    return Shape(
        tuple(found), "decode batch" in low or "prefill batch" in low, any(word in low for word in _STARTS_AND_STOPS)
    )


def near_anchors(low: str, around: int) -> Iterator[tuple[int, int]]:
    """Yields the stretches of a long text that hold an anchor of any rule."""
    for anchor in {anchor for pattern in PATTERNS for anchor in pattern.rule.anchors}:
        at = low.find(anchor)
        while at >= 0:
            yield max(0, at - around), at + around
            at = low.find(anchor, at + around)
