"""The journal in memory; it outlives a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ddops.agent.journal import Entry

if TYPE_CHECKING:
    from .engines import Process
    from .host import Host


class Lines:
    """All lines of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.lines: list[tuple[dict[str, str], Entry]] = []
        self.never = os.eventfd(0, os.EFD_NONBLOCK)

    def prints(self, process: Process, line: str) -> None:
        fields = {"_SYSTEMD_INVOCATION_ID": process.invocation, "_TRANSPORT": "stdout"}
        entry = Entry(
            message=line, time_us=self._host.turns.time_ns() // 1000, cursor=str(len(self.lines)), pid=process.pid,
            identifier="lab", transport="stdout", unit=process.unit, invocation=process.invocation,
            stream=process.invocation,
        )  # fmt: skip
        self.lines.append((fields, entry))

    def open(self, matches: list[str], last: int | None = None, after: str = "") -> Reader:
        reader = Reader(self, matches, int(after) + 1 if after else 0)
        if last is not None:
            newest = [int(entry.cursor) for entry in reader.entries()][-last:]
            reader = Reader(self, matches, newest[0] if newest else len(self.lines))
        return reader


class Reader:
    """Stands for ``Journal`` in the agent."""

    gap = False

    def __init__(self, lines: Lines, matches: list[str], at: int) -> None:
        self._lines, self._at, self.fd = lines, at, lines.never
        self._groups: list[dict[str, set[str]]] = [{}]
        for match in matches:
            if match == "+":
                self._groups.append({})
            else:
                name, _, value = match.partition("=")
                self._groups[-1].setdefault(name, set()).add(value)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def entries(self) -> Iterator[Entry]:
        while self._at < len(self._lines.lines):
            fields, entry = self._lines.lines[self._at]
            self._at += 1
            if any(all(fields.get(name) in values for name, values in group.items()) for group in self._groups):
                yield entry
