"""The whole table of rules, and the fast way to the few that a line can match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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

_BY_ANCHOR: dict[str, list[int]] = {}
for _at, _pattern in enumerate(PATTERNS):
    for _anchor in _pattern.rule.anchors:
        _BY_ANCHOR.setdefault(_anchor, []).append(_at)

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
_AROUND = 600  # characters on either side of an anchor in a long text
_PLACES = 12


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
    found = {at for anchor, places in _BY_ANCHOR.items() if anchor in low for at in places}
    return Shape(
        tuple(PATTERNS[at] for at in sorted(found)),
        "decode batch" in low or "prefill batch" in low,
        any(word in low for word in _STARTS_AND_STOPS),
    )


def near(text: str, anchors: Iterable[str]) -> str:
    """Returns what stands around anchors in a long text, so that no expression runs over all of it.

    Of many places with one anchor the first and the last are kept. A mark shows where text was left out,
    and keeps a line's beginning from being found where none is.
    """
    low, spans = text.lower(), {(0, _AROUND)}
    for anchor in anchors:
        spans.update(_places(low, anchor))
    parts, end = [], 0
    for start, stop in sorted(spans):
        begin = max(start, end)
        if begin < stop:
            parts.append(("" if begin == end else "…\n…") + text[begin:stop])
            end = stop
    return "".join(parts) + ("…" if end < len(text) else "")


def _places(low: str, anchor: str) -> Iterator[tuple[int, int]]:
    at, left = low.find(anchor), _PLACES
    while at >= 0 and left:
        yield max(0, at - _AROUND), at + _AROUND
        at, left = low.find(anchor, at + _AROUND), left - 1
    at, left = low.rfind(anchor), _PLACES
    while at >= 0 and left:
        yield max(0, at - _AROUND), at + _AROUND
        at, left = low.rfind(anchor, 0, max(0, at - _AROUND)), left - 1
