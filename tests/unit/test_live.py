"""``ddops watch`` on a real terminal: what is drawn fits the width that it has by then, and nothing is garbled."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

# ends what was written of an event; the terminal hands on what was written when it has the time
SHOWN = "\x05"
# the real command; its events come from here
CHILD = f"""
import json, os, signal, sys
from ddops import watching
from ddops.cli import target, watch
def told(*_):
    for line in sys.stdin:
        yield json.loads(line)
        os.write(1, b"{SHOWN}")
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it, and their children
target.existing = lambda *_: (None, None)
watching.events = told
code = watch.command()
os.write(1, b"{SHOWN}")
sys.exit(code)
"""
STATE = {
    "event": "state", "time": "2026-03-01T10:00:00Z", "service": "kimi", "release": 12, "budget": 8, "engine": "active",
    "front": "open", "under_way": None, "paused": None, "running": 3, "queued": 0, "accept_len": 4.48,
    "tokens_per_s": 285.0, "graphs": True, "age_s": 1.0,
}  # fmt: skip
WHOLE = "release 12, budget 8, engine active, front open, 285 tok/s, accept 4.48, running 3, queued 0, graphs on"
INCIDENT = {
    "event": "incident", "time": "2026-03-01T10:00:05Z", "rule": "illegal-memory-access", "action": "restart",
    "because": "", "line": "CUDA error: an illegal memory access was encountered",
}  # fmt: skip


class Screen:
    """Rows of a terminal. One that ``breaks`` gives a line that no longer fits more rows, others cut it off."""

    def __init__(self, columns: int, *, breaks: bool) -> None:
        self.columns, self.breaks = columns, breaks
        self.lines: list[list[str]] = [[]]
        self.at = 0
        self.widest = 0

    def resize(self, columns: int) -> None:
        if self.breaks:
            last = self.lines.pop()
            self.lines += [last[i : i + columns] for i in range(0, len(last) or 1, columns)]
        else:
            self.lines = [line[:columns] for line in self.lines]
        self.columns = columns
        self.at = len(self.lines[-1])

    def take(self, text: str) -> None:
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|.", text, re.DOTALL):
            self._take(part)

    def _take(self, part: str) -> None:
        if part == "\r":
            self.at = 0
        elif part == "\n":
            self.lines.append([])
        elif part == "\x1b[K":
            del self.lines[-1][self.at :]
        elif not part.startswith("\x1b"):
            assert part.isprintable(), f"{part!r} reached the terminal"
            for cell in [part, ""] if unicodedata.east_asian_width(part) in "WF" else [part]:
                if self.at == self.columns:
                    self.lines.append([])
                    self.at = 0
                self.lines[-1][self.at : self.at + 1] = [cell]
                self.at += 1

    def rows(self) -> list[str]:
        return ["".join(line) for line in self.lines]


class Watched:
    """``ddops watch`` on a pseudo-terminal, and the screen that shows it."""

    def __init__(self, child: subprocess.Popen[bytes], terminal: int, screen: Screen) -> None:
        self.child, self.terminal, self.screen = child, terminal, screen

    def tell(self, *events: dict[str, Any]) -> None:
        assert self.child.stdin
        for event in events:
            self.child.stdin.write(json.dumps(event).encode() + b"\n")
            self.child.stdin.flush()
            self.read()

    def read(self) -> None:
        """Reads what was written of one event."""
        written = b""
        while not written.endswith(SHOWN.encode()):
            assert select.select([self.terminal], [], [], 60)[0], f"no end of {written!r}"
            written += os.read(self.terminal, 65536)
        self.screen.take(written.decode().removesuffix(SHOWN))

    def resize(self, columns: int) -> None:
        size(self.terminal, columns)
        self.child.send_signal(signal.SIGWINCH)
        self.screen.resize(columns)

    def end(self) -> int:
        assert self.child.stdin
        self.child.stdin.close()
        self.read()
        return self.child.wait(20)


def size(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


@contextmanager
def watching(columns: int, *, breaks: bool = False) -> Iterator[Watched]:
    ours, theirs = pty.openpty()
    size(theirs, columns)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=theirs, env=environment)
    try:
        yield Watched(child, ours, Screen(columns or 80, breaks=breaks))
    finally:
        child.kill()
        child.wait()
        assert child.stdin
        child.stdin.close()
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("breaks", [True, False])
def test_a_terminal_may_change_its_width_under_watch(breaks: bool) -> None:
    with watching(120, breaks=breaks) as watched:
        watched.tell(STATE)
        assert watched.screen.rows() == [WHOLE]
        watched.resize(40)
        watched.tell(STATE, STATE)
        old, new = watched.screen.rows()[:-1], watched.screen.rows()[-1]
        assert new == WHOLE[:39]
        assert "".join(old) == (WHOLE if breaks else WHOLE[:40]), "what the terminal made of the old one stands above"

        watched.resize(20)
        watched.tell(INCIDENT, STATE)
        assert watched.screen.rows()[-1] == WHOLE[:19]
        assert "10:00:05Z incident illegal-memory-access: restart" in "".join(watched.screen.rows())

        before = watched.screen.rows()[:-1]
        watched.resize(200)
        watched.tell(STATE)
        assert watched.screen.rows() == [*before, WHOLE]
        assert watched.end() == 0
        assert watched.screen.rows() == [*before, WHOLE, ""]


def test_an_incident_stands_above_the_state_and_moves_no_cursor() -> None:
    hostile = {**INCIDENT, "line": "\x1b[2J\rCUDA\terror\x9b1A: illegal\nmemory access"}
    with watching(120) as watched:
        watched.tell(STATE, hostile, STATE)
        assert watched.screen.rows() == [
            "10:00:05Z incident illegal-memory-access: restart",
            "           [2J CUDA error 1A: illegal memory access",
            WHOLE,
        ]


def test_wide_characters_are_cut_by_the_cells_that_they_take() -> None:
    with watching(130) as watched:
        watched.tell({**STATE, "paused": "山田太郎\x07"})
        assert watched.screen.rows() == [f"{WHOLE}, PAUSED by 山田太郎 "[: len(WHOLE) + 17]]
        watched.resize(len(WHOLE) + 16)
        watched.tell({**STATE, "paused": "山田太郎"})
        assert watched.screen.rows()[-1] == f"{WHOLE}, PAUSED by 山"


def test_a_pause_says_when_it_ends() -> None:
    with watching(160) as watched:
        watched.tell({**STATE, "paused": "me", "paused_until": 1772366400.0})
        assert watched.screen.rows() == [f"{WHOLE}, PAUSED by me until 2026-03-01T12:00:00Z"]


def test_a_terminal_that_has_no_size_is_taken_for_80_columns() -> None:
    with watching(0) as watched:
        watched.tell(STATE)
        assert watched.screen.rows() == [WHOLE[:79]]
