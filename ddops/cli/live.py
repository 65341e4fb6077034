"""A service's state as one line that stays in place on a terminal, with what happens above it."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from .output import data, harmless, paint

_QUIET_S = 10.0  # without a terminal, a state is printed when it changed or so often


class Live:
    """Prints events. On a terminal the newest state is rewritten in place, at the width that it has by then."""

    def __init__(self, *, alive: bool) -> None:
        self._alive = alive
        self._last: tuple[str, str] = ("", "")

    def __call__(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "state":
            self._state(event)
        elif kind == "incident":
            because = f" ({event['because']})" if event["because"] else ""
            self._say(
                f"{_time(event)} {paint('incident', 'red', sys.stdout)} {event['rule']}: {event['action']}{because}"
            )
            self._say(f"         {event['line'][:200]}")
        elif kind == "lost":
            self._say(f"{paint('lost', 'yellow', sys.stdout)} {event['what']}: {event['why']}")
        elif kind == "fault":
            self._say(f"{_time(event)} {paint('fault', 'red', sys.stdout)} {event['rule']}: {event['line'][:160]}")
        elif kind == "step":
            self._say(f"{_time(event)} operation {event['operation']}: {event['step']}")
        elif kind == "step-failed":
            self._say(
                f"{_time(event)} operation {event['operation']}: {event['step']} failed: {event['error']['what']}"
            )

    def end(self) -> None:
        """Leaves the last state standing."""
        if self._alive:
            sys.stdout.write("\n")

    def _say(self, line: str) -> None:
        if self._alive:
            sys.stdout.write("\r\033[K")
        data(line)

    def _state(self, state: dict[str, Any]) -> None:
        line, changes = _line(state), _what_changes(state)
        if self._alive:
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write("\r\033[K" + harmless(line)[:width])
        elif changes != self._last[1] or state["time"][:18] != self._last[0]:  # every ten seconds
            data(f"{_time(state)} {line}")
            self._last = (state["time"][:18], changes)


def _time(event: dict[str, Any]) -> str:
    return str(event["time"])[11:19]


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
    words += [f"PAUSED by {state['paused']}"] if state["paused"] else []
    return ", ".join(words)
