"""Acceptance over many decode lines: one line means nothing.

``accept len`` is compared, never ``accept rate``: the rate changed its meaning between releases. After a
start or an idle time the first line's throughput is absurd, so throughput is not looked at. At a high
batch adaptive speculation may be off on purpose: an accept length of 1 is right there.
"""

from __future__ import annotations

import re
from collections import deque
from statistics import median

_LENGTH = re.compile(r"\baccept len: (\d+(?:\.\d+)?|nan)", re.IGNORECASE)
_RUNNING = re.compile(r"#running-req: (\d+)")
_EAGER = re.compile(r"\b(?:cuda|npu|musa) graph: False")
_LINES = 5
_ALONE = 1.05  # no draft is accepted: every step yields its one sure token
_SPECULATES = 1.5  # what can collapse
_LOW_BATCH = 8


class Acceptance:
    """Fed with decode lines; ``baseline`` is known-good's accept length on the same traffic, if known."""

    def __init__(self, baseline: float | None = None) -> None:
        self.baseline = baseline
        self._before: deque[float] = deque(maxlen=50)
        self._low: list[float] = []

    def feed(self, message: str) -> str:
        """Takes one line; returns what is wrong at the line that completes the proof, else nothing."""
        found = _LENGTH.search(message)
        if found is None:
            return ""
        running = _RUNNING.search(message)
        length = float(found.group(1))
        if running is None or not 1 <= int(running.group(1)) <= _LOW_BATCH or _EAGER.search(message):
            self._low.clear()  # such a line is no evidence, and it ends the row
            return ""
        if length == length and length > _ALONE:
            self._low.clear()
            self._before.append(length)
            return ""
        self._low.append(length)
        if len(self._low) != _LINES:
            return ""
        usual = self.baseline or (median(self._before) if self._before else None)
        if usual is not None and usual < _SPECULATES:
            return ""
        against = f"{usual:.2f} before" if usual is not None else "it never was above"
        return f"accept len {length:.2f} on {_LINES} decode lines in a row at a low batch, {against}"
