"""Acceptance over many decode lines: one line means nothing, and one text means little.

``accept len`` is compared, never ``accept rate``: the rate changed its meaning between releases. After a
start or an idle time the first line's throughput is absurd, so throughput is not looked at. At a high
batch adaptive speculation may be off on purpose: an accept length of 1 is right there. So it is for a text
that no drafter foresees, which is why several requests have to show it: those that run together, and those
whose prefill came since. A drafter that copies from earlier text has nothing to copy at first, and little
after a change of what it is asked: there it takes more, and a better time before.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

_LENGTH = re.compile(r"\baccept len: (\d+(?:\.\d+)?|nan)", re.IGNORECASE)
_RUNNING = re.compile(r"#running-req: (\d+)")
_NEW = re.compile(r"#new-seq: (\d+)")
_OFF = re.compile(r"\b(?:cuda|npu|musa) graph: False|\bcap len: (?:0|1\.0)\d*\b")
_RANK = re.compile(r"\bDP\d+")
_ALGORITHM = re.compile(r"\bspeculative_algorithm=['\"](\w+)")
_COPIES = ("NGRAM", "LOOKAHEAD")  # drafters without weights
_ALONE = 1.05  # no draft is accepted: every step yields its one sure token
_SPECULATES = 1.5  # what can collapse
_LOW_BATCH = 8


class _Proof(NamedTuple):
    """Lines in a row, and requests that were seen in them."""

    lines: int
    requests: int


_LEARNED = _Proof(5, 3)
_COPIED = _Proof(20, 8)


@dataclass
class _Row:
    """What one data-parallel rank says: its lines in a row without an accepted draft."""

    before: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    lines: int = 0
    requests: int = 0
    new: int = 0  # sequences that came since the last decode line
    told: bool = False

    def end(self) -> None:
        self.lines = self.requests = self.new = 0
        self.told = False


class Acceptance:
    """Fed with decode and prefill lines; ``algorithm`` is SGLang's name of the drafter, empty where not known."""

    def __init__(self, algorithm: str = "") -> None:
        self._algorithm = algorithm
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets the lines: another process begins with nothing learned."""
        self._rows: dict[str, _Row] = {}
        self._counts_requests = False  # an excerpt may hold no prefill line

    def started_with(self, arguments: str) -> None:
        """Takes the algorithm from the line in which the engine prints its arguments."""
        if found := _ALGORITHM.search(arguments):
            self._algorithm = found[1]

    def feed(self, message: str) -> str:
        """Takes one line; returns what is wrong at the line that completes the proof, else nothing."""
        at = message.find("code batch")
        if at < 0:
            self._prefill(message)
            return ""
        found = _LENGTH.search(message, at)
        if found is None or _is_quoted(message, at):
            return ""
        row = self._row(message, at)
        length = float(found[1])
        if length > _ALONE:
            row.end()
            row.before.append(length)
            return ""
        running = _RUNNING.search(message)
        if running is None or int(running[1]) > _LOW_BATCH or _OFF.search(message):
            row.end()  # such a line is no evidence, and it ends the row
            return ""
        return self._low(row, length, int(running[1]))

    def _prefill(self, message: str) -> None:
        at = message.find("fill batch")
        if at >= 0 and (new := _NEW.search(message, at)) and not _is_quoted(message, at):
            self._counts_requests = True
            self._row(message, at).new += int(new[1])

    def _row(self, message: str, at: int) -> _Row:
        rank = _RANK.search(message, 0, at)
        return self._rows.setdefault(rank[0] if rank else "", _Row())

    def _low(self, row: _Row, length: float, running: int) -> str:
        if not running:  # the last one has just ended
            return ""
        row.requests += min(row.new, running) if row.lines else running
        row.lines, row.new = row.lines + 1, 0
        copies = self._algorithm.upper() in _COPIES
        proof = _COPIED if copies else _LEARNED
        if row.told or row.lines < proof.lines or (self._counts_requests and row.requests < proof.requests):
            return ""
        usual = median(row.before) if row.before else None
        if copies if usual is None else usual < _SPECULATES:
            return ""
        row.told = True
        against = f"{usual:.2f} before" if usual is not None else "it never was above"
        of = f" of {row.requests} requests" if self._counts_requests else ""
        return f"accept len {length:.2f} on {row.lines} decode lines in a row{of} at a low batch, {against}"


def _is_quoted(message: str, at: int) -> bool:
    """Tells whether a user's words may begin before a place: the engine's own prefix has no quotation mark."""
    return message.find("'", 0, at) >= 0 or message.find('"', 0, at) >= 0
