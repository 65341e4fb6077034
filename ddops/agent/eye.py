"""The eye on a promoted engine: its journal, what systemd and the kernel say of it, and its processes."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from itertools import islice

from . import processes, service, systemd
from .decode import FIRED_UP, is_decode
from .errors import AgentError
from .faults import Detector, Incident, Scope
from .faults.model import PROMOTED
from .gates.smoke import ask
from .journal import Journal
from .layout import Layout
from .releases import Release
from .seen import Seen, matches, seen
from .systemd import Unit

_AT_ONCE = 5000  # entries of one look: the watchdog and requests have their turn in between
_LAST_WORDS_S = 0.3  # journald may still hold the last lines of a process that has ended
_NEWS = ("opened", "renamed")
_WRONG_IN_A_ROW = 2  # one late answer of a busy engine is no incident


class Eye:
    """Watches one invocation of a promoted release; returns an incident when it opens or gets another name."""

    def __init__(self, layout: Layout, release: Release, unit: Unit, ask_every: float) -> None:
        self.unit = unit
        self._layout = layout
        drafter = str(release.manifest.get("algorithm") or "")
        self._detector = Detector(PROMOTED, Scope(frozenset({unit.name}), unit.invocation), drafter)
        before = seen(layout, unit.invocation)
        self._detector.stopping |= before.stopping
        self._journal = Journal(matches(unit), after=before.cursor)
        self._ours = bool(before.cursor)
        self._pidfd = processes.open_process(unit.main_pid)
        self._schedulers = before.schedulers | processes.schedulers(unit.cgroup)
        self._cursor = before.cursor
        self._questions = _Questions(release, ask_every, loads=not before.served)
        self._ended = False
        self._decoded_at = 0.0
        self._read_us = 0  # when the newest entry that was read was written

    def descriptors(self) -> list[int]:
        """Returns what tells of news: the journal and the main process."""
        return [self._journal.fd, *([self._pidfd] if self._pidfd is not None and not self._ended else [])]

    def close(self, *, remembers: bool = True) -> None:
        """Ends the watch; where something that was read is still to be acted on, nothing more is remembered."""
        if remembers:
            with contextlib.suppress(OSError):  # no room: the next watch reads some of it again
                self.remember()
        self._questions.end()
        self._journal.close()
        if self._pidfd is not None:
            os.close(self._pidfd)

    def remember(self) -> None:
        """Keeps what was seen, for the next life of the supervisor in this boot."""
        served, stopping = self._questions.owed, self._detector.stopping
        Seen(self.unit.invocation, self._cursor, self._schedulers, served, stopping).store(self._layout)

    def poll(self) -> list[Incident]:
        """Reads what is new; returns the incidents that it opened or renamed."""
        found = self._read()
        if not self._ended and (self._pidfd is None or select.select([self._pidfd], [], [], 0)[0]):
            self._ended = True
            found += self._last_words()
        return found

    def look_around(self) -> list[Incident]:
        """Looks at what no line tells: processes that are gone, answers that are wrong or do not come."""
        if self._ended:
            return []
        found: list[Incident] = []
        there = processes.schedulers(self.unit.cgroup)
        gone = self._schedulers - there
        if self._questions.owed:
            self._schedulers |= there  # it may have missed one: its title came late, or the engine's line was lost
        if gone and processes.pids(self.unit.cgroup):
            self._schedulers -= gone
            found += self._what_comes()  # somebody stops it, perhaps
            found += self._signal("scheduler-gone", f"{len(gone)} scheduler processes are gone, the parent lives")
        rule, why, since = self._questions.news()
        busy = rule == "no-decode" and self._decoded_at > since  # others are served: the question had to wait
        return found + (self._signal(rule, why) if rule and not busy else [])

    def _read(self) -> list[Incident]:
        found: list[Incident] = []
        for entry in islice(self._journal.entries(), _AT_ONCE):
            self._cursor, self._read_us = entry.cursor, entry.time_us
            # the kernel's lines of the time before this invocation are another's
            self._ours = self._ours or self.unit.name in (entry.unit, entry.about)
            if self._ours:
                changes = self._detector.feed(entry)
                found += [c.incident for c in changes if c.kind in _NEWS]
                if any(c.incident.rule.name == "accept-collapse" for c in changes):
                    self._questions.ask_now()  # slow or garbage: the answers tell
                if FIRED_UP in entry.message:
                    self._schedulers |= processes.schedulers(self.unit.cgroup)
                    self._questions.has_loaded()
                elif is_decode(entry.message):
                    self._decoded_at = time.monotonic()
        return found

    def _what_comes(self) -> list[Incident]:
        """Reads what journald may still hold."""
        found: list[Incident] = []
        end = time.monotonic() + _LAST_WORDS_S
        while time.monotonic() < end:
            found += self._read()
            select.select([self._journal.fd], [], [], 0.05)
        return found

    def _last_words(self) -> list[Incident]:
        found = self._what_comes()
        now = systemd.show(self.unit.name)
        rule = "engine-ended-0" if now.exit_status in ("0", "") and now.result == "success" else "engine-ended"
        how = f"{now.exit_code or 'ended'} {now.exit_status}".strip()
        when = self._read_us if self._pidfd is None else 0  # it had ended before anybody watched
        return found + self._signal(rule, f"the main process is gone: {how}, result {now.result}", when)

    def _signal(self, rule: str, why: str, when_us: int = 0) -> list[Incident]:
        now = when_us or time.time_ns() // 1000
        return [c.incident for c in self._detector.signal(rule, why, time_us=now) if c.kind in _NEWS]


class _Questions:
    """Asks the engine a question every few seconds, in a thread: a hung engine must not hang the watch.

    An engine that has never served loads, perhaps: it has the longest load's time for that.
    """

    def __init__(self, release: Release, every: float, *, loads: bool) -> None:
        self._release, self._every = release, every
        self._loads_until = time.monotonic() + release.deadlines["load_cap"] if loads else 0.0
        self._ended = False
        self._at_once = 0  # questions that do not wait for their time
        self._woken = threading.Event()
        self._news = ("", "", 0.0)
        threading.Thread(target=self._run, name="questions", daemon=True).start()

    def news(self) -> tuple[str, str, float]:
        """Returns once the rule that the last answers broke, why, and since when; an empty rule where all is well."""
        news, self._news = self._news, ("", "", 0.0)
        return news

    def ask_now(self) -> None:
        """Asks as many questions as prove wrong answers without waiting for their time."""
        self._at_once = _WRONG_IN_A_ROW
        self._woken.set()

    @property
    def owed(self) -> bool:
        """True from when the engine has served."""
        return not self._loads_until

    def has_loaded(self) -> None:
        """From here on an answer is owed."""
        self._loads_until = 0.0

    def end(self) -> None:
        self._ended = True
        self._woken.set()

    def _is_time(self) -> bool:
        """Waits for the next question's time; False at the end of the watch."""
        if not self._at_once:
            self._woken.wait(self._every)
        self._woken.clear()
        self._at_once = max(0, self._at_once - 1)
        return not self._ended

    def _run(self) -> None:
        engine, smoke = service.engine_of(self._release), self._release.gates["smoke"]
        number, wrong, since = 0, 0, 0.0
        while self._is_time():
            question = smoke["questions"][number % len(smoke["questions"])]
            number += 1
            since = since if wrong else time.monotonic()
            try:
                ask(engine, question, smoke["max_tokens"], self._release.deadlines["answer"], stream=False)
                wrong, self._loads_until = 0, 0.0
            except AgentError as error:
                if time.monotonic() < self._loads_until:
                    continue
                wrong += 1
                if wrong == _WRONG_IN_A_ROW:
                    rule = "wrong-answer" if "wrong answer" in error.what else "no-decode"
                    self._news = (rule, f"{wrong} times in a row: {error.what}; {error.why}", since)
