"""A service's state as one line that stays in place on a terminal, with what happens above it."""

from __future__ import annotations

import os
import sys
import unicodedata
from typing import Any

from ..durations import until
from .output import paint, stream

_QUIET_S = 10.0  # without a terminal, a state is printed when it changed or so often


class Live:
    """Prints events. On a terminal the newest state is rewritten in place, at the width that it has by then."""

    def __init__(self, *, alive: bool) -> None:
        self._alive = alive
        self._last: tuple[str, str] = ("", "")
        self._drawn = 0  # cells of the line that stands

    def __call__(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "state":
            self._state(event)
        elif kind == "incident":
            because = f" ({event['because']})" if event["because"] else ""
            self._say(
                f"{_time(event)} {paint('incident', 'red', sys.stdout)}", f"{event['rule']}: {event['action']}{because}"
            )
            self._say("         ", event["line"][:200])
        elif kind == "lost":
            self._say(paint("lost", "yellow", sys.stdout), f"{event['what']}: {event['why']}")
        elif kind == "fault":
            self._say(f"{_time(event)} {paint('fault', 'red', sys.stdout)}", f"{event['rule']}: {event['line'][:160]}")
        elif kind == "noticed":
            self._say(f"{_time(event)} {paint('noticed', 'yellow', sys.stdout)}", f"{event['rule']}: {event['why']}")
        elif kind == "cancelled":
            self._say(_time(event), f"operation {event['operation']}: ended by {event['by']}")
        elif kind == "step":
            self._say(_time(event), f"operation {event['operation']}: {event['step']}")
        elif kind == "step-failed":
            failed = f"{event['step']} failed: {event['error']['what']}"
            self._say(_time(event), f"operation {event['operation']}: {failed}")

    def end(self) -> None:
        """Leaves the last state standing."""
        if self._alive:
            stream("")

    def _say(self, head: str, text: str) -> None:
        if self._alive:
            self._clear(_width())
        stream(f"{head} {_printable(text)}")

    def _clear(self, width: int) -> None:
        """Takes the line that stands away; one that the terminal has broken up since, since it is narrower now, stays.

        Some terminals break it, others cut it off: what stands above it is then not known.
        """
        sys.stdout.write("\n" if self._drawn >= width else "\r\033[K")
        self._drawn = 0

    def _state(self, state: dict[str, Any]) -> None:
        line, changes = _line(state), _what_changes(state)
        if self._alive:
            width = _width()
            self._clear(width)
            line, self._drawn = _cut(_printable(line), width - 1)
            stream(line, end="")
        elif changes != self._last[1] or state["time"][:18] != self._last[0]:  # every ten seconds
            stream(f"{_time(state)} {line}")
            self._last = (state["time"][:18], changes)


def _width() -> int:
    """Returns the columns of the terminal as it is now; COLUMNS tells what it once was."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80


def _printable(text: str) -> str:
    """Takes out what would move the cursor: an engine's line may hold anything."""
    return "".join(c if c.isprintable() else " " for c in text)


def _cut(text: str, cells: int) -> tuple[str, int]:
    """Returns what of a text fits into so many cells of a terminal, and the cells that it takes."""
    taken = 0
    for at, character in enumerate(text):
        wide = 2 if unicodedata.east_asian_width(character) in "WF" else 0 if unicodedata.combining(character) else 1
        if taken + wide > cells:
            return text[:at], taken
        taken += wide
    return text, taken


def _time(event: dict[str, Any]) -> str:
    return f"{str(event['time'])[11:19]}Z"


def _what_changes(state: dict[str, Any]) -> str:
    return str([state[k] for k in ("release", "engine", "front", "under_way", "paused")])


def _line(state: dict[str, Any]) -> str:
    def figure(name: str, shape: str) -> list[str]:
        return [shape.format(state[name])] if state[name] is not None else []

    words = [f"release {state['release']}"]
    words += figure("budget", "budget {}")
    words += [f"engine {state['engine']}", f"front {state['front']}"]
    words += figure("tokens_per_s", "{:.0f} tok/s") + figure("accept_len", "accept {:.2f}")
    words += figure("running", "running {}") + figure("queued", "queued {}")
    words += [f"graphs {'on' if state['graphs'] else 'off'}"] if state["graphs"] is not None else []
    words += [f"said {state['age_s']:.0f} s ago"] if (state["age_s"] or 0) > _QUIET_S else []
    words += [f"[{state['under_way']}]"] if state["under_way"] else []
    ends = f" {until(state['paused_until'])}" if state.get("paused_until") else ""
    words += [f"PAUSED by {state['paused']}{ends}"] if state["paused"] else []
    return ", ".join(words)
