"""One running engine under watch: its journal, line by line, and the end of its process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import time
from collections import deque
from itertools import islice
from typing import Any

from . import processes, systemd
from .decode import FIRED_UP, is_decode
from .fault import Fault
from .faults import Change, Detector, Incident, Level, Scope
from .faults.model import PAGE, ROLLBACK, TRIAL
from .journal import Entry, Journal, JournalError
from .systemd import Unit

_PAIR = re.compile(r"(accept len|graph|gen throughput \(token/s\)|#running-req): ([^,\s]+)")
_AT_ONCE = 5000  # entries of one look: the watchdog and cancellations have their turn in between
_LAST_WORDS_S = 0.3  # journald may still hold the last lines of a process that has ended


class EngineWatch:
    """Reads every line of one invocation, from its first, and keeps what the gates ask for.

    The kernel's lines are read too, from then on: an Xid, an out-of-memory kill.

    ``poll`` belongs to one thread; the attributes may be read from others.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.fired_up = False
        self.schedulers: frozenset[int] = frozenset()  # once it has fired up
        self.overlay_reports: list[dict[str, Any]] = []
        self.decode: deque[dict[str, str]] = deque(maxlen=50)
        self.recent: deque[str] = deque(maxlen=30)
        self.lines = 0
        self.noticed: deque[Fault] = deque(maxlen=50)  # what a person should know of, and no reason to go back
        # what would roll back a trial is a fault of the engine, whatever is then done about it
        self._detector = Detector(TRIAL, Scope(frozenset({unit.name}), unit.invocation))
        self._incident: Incident | None = None
        self._journal = Journal([f"_SYSTEMD_INVOCATION_ID={unit.invocation}", "+", "_TRANSPORT=kernel"])
        self._pidfd = processes.open_process(unit.main_pid)

    def descriptors(self) -> list[int]:
        """Returns what a select can wait on: the journal and the main process."""
        return [self._journal.fd] + ([self._pidfd] if self._pidfd is not None else [])

    def poll(self) -> Fault | None:
        """Reads what is new; returns a fault that a line shows, or that the process has ended."""
        if fault := self._read():
            return fault
        if not self._ended():
            return None
        deadline = time.monotonic() + _LAST_WORDS_S
        while time.monotonic() < deadline:
            if fault := self._read():
                return fault
            select.select([self._journal.fd], [], [], 0.05)
        return self._how_it_ended()

    def close(self) -> None:
        self._journal.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _read(self) -> Fault | None:
        for entry in islice(self._journal.entries(), _AT_ONCE):
            for change in self._take(entry):
                if change.incident.action == ROLLBACK:
                    self._incident = change.incident
                    return Fault.of(change.incident)
                if change.kind in ("opened", "renamed") and change.incident.action == PAGE:
                    self.noticed.append(Fault.of(change.incident))
        return None

    def cause_of(self, fault: Fault) -> Fault:
        """Returns a fault under the name of its first cause, if the engine's last lines tell one.

        For a fault that was acted on already: this waits for lines that journald may still hold.
        """
        incident = self._incident
        deadline = time.monotonic() + _LAST_WORDS_S
        with contextlib.suppress(JournalError):  # what is known stands
            while incident and incident.rule.level < Level.CAUSE and time.monotonic() < deadline:
                for entry in islice(self._journal.entries(), _AT_ONCE):
                    self._take(entry)
                select.select([self._journal.fd], [], [], 0.02)
        return Fault.of(incident) if incident else fault

    def _take(self, entry: Entry) -> list[Change]:
        if entry.transport == "kernel":  # before the engine's first line it speaks of the time before
            return self._detector.feed(entry) if self.lines else []
        self._keep(entry.message)
        return self._detector.feed(entry)

    def _keep(self, line: str) -> None:
        self.lines += 1
        self.recent.append(line[:400])
        if FIRED_UP in line:
            self.fired_up = True
            self.schedulers = processes.schedulers(self.unit.cgroup)
        elif line.startswith('{"ddops_overlay"'):
            try:
                self.overlay_reports.append(json.loads(line)["ddops_overlay"])
            except ValueError:
                self.overlay_reports.append({"ok": False, "problem": "the report is not JSON", "line": line[:400]})
        elif is_decode(line):
            self.decode.append(dict(_PAIR.findall(line)))

    def _ended(self) -> bool:
        return self._pidfd is None or bool(select.select([self._pidfd], [], [], 0)[0])

    def _how_it_ended(self) -> Fault:
        unit = systemd.show(self.unit.name)
        how = f"{unit.exit_code or 'ended'} {unit.exit_status}".strip()
        last = self.recent[-1] if self.recent else "no line in the journal"
        return Fault(
            rule="engine-ended",
            why=f"the main process of {unit.name} is gone: {how}, result {unit.result}",
            line=last,
            pid=self.unit.main_pid,
            time_us=time.time_ns() // 1000,
            cursor="",
            fault="service_exit_failure",
        )


def lost(unit: Unit, error: Exception) -> Fault:
    """Returns the fault of an engine that can no longer be watched: no evidence is not good evidence."""
    return Fault(
        rule="journal-lost",
        why=f"the journal of {unit.name} cannot be read: {error}",
        line="",
        pid=unit.main_pid,
        time_us=time.time_ns() // 1000,
        cursor="",
        fault="journal_lost",
    )
