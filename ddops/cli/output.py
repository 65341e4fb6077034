"""What ddops prints: data on stdout, everything else on stderr, readable without colour."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from typing import Any

from ..errors import DdopsError

_COLOURS = {"green": 32, "red": 31, "yellow": 33, "dim": 2, "bold": 1}
# what a terminal would obey, our own colours left out: in what comes from a host there may be anything
_CONTROL = re.compile(r"(\x1b\[(?:0|1|2|31|32|33)m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """Returns text that moves no cursor, names no window and turns no line around: such characters are spelt out."""
    return _CONTROL.sub(lambda found: found[1] or ascii(found[0])[1:-1], text)


def paint(text: str, colour: str, stream: Any = None) -> str:
    """Colours text where the stream (stderr, if none is given) is a terminal that wants it."""
    stream = stream or sys.stderr
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain else f"\033[{_COLOURS[colour]}m{text}\033[0m"


def alive(stream: Any) -> bool:
    """Says whether a line can be written over on the stream: on a terminal that is not a dumb one."""
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def say(text: str = "") -> None:
    """Writes one line for people."""
    draw(harmless(text) + "\n")


def draw(text: str) -> None:
    """Writes on stderr as it is; where that can take no more, a command goes on without it and ends as it would."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _to_nowhere(sys.stderr)


def _to_nowhere(stream: Any) -> None:
    """Sends a stream, and what it holds back, nowhere from here on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def asking(host: str) -> None:
    """Says at once on a terminal whom a command waits for: to connect may take seconds."""
    if alive(sys.stderr):
        say(paint(f"asking {host}", "dim"))


class OutputLost(DdopsError):
    """What was asked for could not be written: a full disk."""

    def __init__(self, error: OSError) -> None:
        super().__init__("the output could not be written", error.strerror or type(error).__name__)


class ReaderGone(Exception):
    """Nobody reads on what would never end by itself."""


def data(text: str) -> None:
    """Writes one line of what was asked for; raises OutputLost.

    Where nobody reads on, the rest goes nowhere: the command ends with what is true all the same.
    """
    try:
        sys.stdout.write(harmless(text) + "\n")
    except BrokenPipeError:
        _to_nowhere(sys.stdout)
    except OSError as error:
        raise lost(error) from None


def stream(text: str, end: str = "\n") -> None:
    """Writes a part of what has no end by itself, at once; raises OutputLost, and ReaderGone where nobody reads on."""
    try:
        sys.stdout.write(harmless(text) + end)
        sys.stdout.flush()
    except BrokenPipeError:
        _to_nowhere(sys.stdout)
        raise ReaderGone from None
    except OSError as error:
        raise lost(error) from None


def lost(error: OSError) -> OutputLost:
    """Returns what is told of an output that cannot be written; what is held back of it goes nowhere from here on."""
    _to_nowhere(sys.stdout)
    return OutputLost(error)


def row(text: str) -> None:
    """Writes one line of a table, cut to the terminal; what is piped stays whole."""
    columns = shutil.get_terminal_size().columns
    data(text if len(text) <= columns or not sys.stdout.isatty() else text[: columns - 1] + "…")


def document(value: Any) -> None:
    """Writes the one JSON document of a command; raises as ``data``."""
    data(json.dumps(value, indent=1))


def error(what: str, why: str, hint: str, code: int, *, as_json: bool) -> int:
    """Tells of an error; returns its exit code."""
    say(f"{paint('error:', 'red')} {what}")
    if why:
        say(f"  {why}")
    if hint:
        say(f"\nhint: {hint}")
    if as_json:
        with contextlib.suppress(OutputLost):  # it has been said above
            problem(what, why, hint, code)
    return int(code)


def problem(what: str, why: str, hint: str, code: int) -> None:
    """Writes an error's document, on one line: it may come after others that are a line each; raises as ``data``."""
    data(json.dumps({"error": {"code": int(code), "what": what, "why": why, "hint": hint}}))
