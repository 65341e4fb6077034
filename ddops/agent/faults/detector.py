"""Lines in, incidents out: at once, at the first line that shows a fault; later lines enrich it.

The action of an incident never waits for another line. A line that is nearer to the cause may rename it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .. import quoted
from ..journal import Entry
from . import normal, table
from .acceptance import Acceptance
from .incident import Evidence, Incident, excerpt
from .model import COREDUMP, ENGINE, IGNORE, JOURNALD, KERNEL, OTHER, STOPPING, STRENGTH, SYSTEMD, Level, Rule
from .normal import Line

_REPEAT_US = 600 * 1_000_000
_ONE_FAULT_US = 900 * 1_000_000  # a collective times out ten minutes after its cause
_LONG = 2048  # above this only what stands around an anchor is read
_WINDOW = 2048
_GLUED = re.compile(r"(?<=.)\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_NOTHING: list[Change] = []
_STOPS = re.compile(
    r"\bSIGTERM received|\bReceived SIGTERM|\bReceived signal (?:15|SIGTERM)|\bStopping (?:\S+\.service|\S.*)\.\.\."
    r"|(?:^|\] )(?:INFO: +)?Shutting down$|\bGracefully shutting down|\bDeactivating\b",
    re.MULTILINE,
)
_STARTS = re.compile(r"\bserver_args=ServerArgs\(")
_STARTED = re.compile(r"^(?:Started|Starting) \S", re.MULTILINE)
_PID = re.compile(r"\bpid=(\d+)")
_COMM = re.compile(
    r"\bname=([^,\s]+)|\bKill(?:ed)? process \d+,? \(([^)]*)\)|\btask=([^,\s]+)|\breaped process \d+ \(([^)]*)\)"
    r"|\btask (\S+):\d+ blocked|([^\s\[\]]+)\[\d+\](?:: segfault|:? general protection|:? trap)"
    r"|stuck for \d+s! \[(\S+):\d+\]"
)


class Change(NamedTuple):
    """``kind``: opened, renamed (a cause was found), grown (one more line), withdrawn (it was none)."""

    kind: str
    incident: Incident


@dataclass(frozen=True)
class Scope:
    """Whose lines count. Empty: not known, so every line that may be the service's counts."""

    units: frozenset[str] = frozenset()
    invocation: str = ""
    pids: frozenset[int] = frozenset()
    gpus: frozenset[str] = frozenset()  # PCI addresses as the driver prints them


class Detector:
    """One service under watch, in one phase at a time."""

    def __init__(self, phase: str, scope: Scope | None = None, algorithm: str = "") -> None:
        self.phase = phase
        self.scope = scope or Scope()
        self.incidents: list[Incident] = []
        self.stopping = phase == STOPPING
        self._acceptance = Acceptance(algorithm)
        self._open: dict[str, Incident] = {}
        self._seen: dict[str, deque[int]] = {}
        self._pending: dict[str, str] = {}
        self._invocation = ""
        self._number = 1
        self._shapes = table.Shapes()

    # ---- in

    def feed(self, entry: Entry) -> list[Change]:
        """Takes one entry of the journal; returns what it changed, nothing for almost every line."""
        message = entry.message
        # a request that is logged is long and quotes: what is quoted needs no search
        shape = self._shapes.of(message if len(message) < _LONG else quoted.own_words(message))
        if entry.invocation != self._invocation:
            self._new_invocation(entry)
        if (
            shape.candidates
            or shape.follows
            or entry.unreadable
            or self._pending
            or "\x1b" in message
            or message.find("[20", 1) > 0
        ):
            changes = list(self._read(entry))
        else:
            changes = _NOTHING
        if shape.decodes and (why := self._decode(message)):
            return [*changes, *self.signal("accept-collapse", why, entry)]
        return changes

    def signal(self, name: str, why: str, entry: Entry | None = None, time_us: int = 0) -> list[Change]:
        """Takes what no line tells, by the name of its rule: a process that ended, an engine that fell silent.

        ``time_us`` is when that was seen: without it, it belongs to whatever is known, however old.
        """
        rule = table.RULES[name]
        said = entry or Entry(why, time_us, "", 0, "", "", "")
        evidence = Evidence(rule.name, said.message, said.pid, said.time_us, said.cursor, said.unit)
        return [self._take(rule, evidence, (), said.invocation, why)] if self._counts(rule) else []

    # ---- reading

    def _decode(self, message: str) -> str:
        self._seen.pop("health-check-late", None)  # it decodes: the check was late, not the engine
        return self._acceptance.feed(message) if not self.stopping else ""

    def _read(self, entry: Entry) -> Iterator[Change]:
        if entry.unreadable:
            if self._is_ours(Line("", self._writer(entry), entry.about, ())):
                rule = table.RULES["unreadable-line"]
                yield self._take(
                    rule, self._evidence(rule, entry, "(a line that cannot be read)"), (), entry.invocation
                )
            return
        for message in self._whole(entry):
            said = quoted.own_words(normal.clean(message))
            shape = self._shapes.of(said)
            if not shape.candidates and not shape.follows:
                continue
            line = normal.normal(_short(said, shape), self._writer(entry), entry.about)
            if self._is_ours(line):
                if shape.follows:
                    self._follow(line, said)
                yield from self._match(entry, line, shape)

    def _whole(self, entry: Entry) -> Iterator[str]:
        """Yields the message, and what two writers who shared a line may have meant."""
        stream = entry.stream or "plain"
        yield entry.message
        if begun := self._pending.pop(stream, ""):
            yield begun + entry.message
        glued = list(_GLUED.finditer(entry.message)) if "[20" in entry.message[1:] else []
        if glued:
            self._pending[stream] = entry.message[: glued[0].start()][-_WINDOW:]

    def _writer(self, entry: Entry) -> str:
        if entry.transport in ("kernel", "audit"):
            return KERNEL
        named = normal.writer_of(entry.identifier) if entry.identifier else ""
        if named in (SYSTEMD, KERNEL, JOURNALD) or (named and named != OTHER):
            return named
        if entry.unit == "init.scope":
            return SYSTEMD
        if entry.unit:
            return ENGINE if not self.scope.units or entry.unit in self.scope.units else OTHER
        return named or (ENGINE if entry.transport == "stdout" else "")

    def _is_ours(self, line: Line) -> bool:
        if line.writer == OTHER:
            return False
        if line.unit in table.HOST_UNITS:
            return True  # and only one rule may then match
        if line.unit and line.writer in ("", SYSTEMD, JOURNALD, COREDUMP):
            if self.scope.units:
                return line.unit in self.scope.units or line.writer == ""
            return normal.may_serve_a_model(line.unit)
        return True

    def _follow(self, line: Line, said: str) -> None:
        """Keeps up with starts and stops: what follows a stop that was asked for is no fault."""
        if line.writer in ("", ENGINE, SYSTEMD):
            if _STOPS.search(line.text):
                self.stopping = True
            elif (_STARTED if line.writer == SYSTEMD else _STARTS).search(line.text):
                self._begin_anew()
                self._acceptance.started_with(said)

    def _new_invocation(self, entry: Entry) -> None:
        if entry.invocation and self._writer(entry) == ENGINE:
            if self._invocation:
                self._begin_anew()
            self._invocation = entry.invocation

    def _begin_anew(self) -> None:
        self.stopping = self.phase == STOPPING
        self._open.clear()
        self._seen.clear()
        self._acceptance.begin_anew()

    # ---- judging

    def _match(self, entry: Entry, line: Line, shape: table.Shape) -> Iterator[Change]:
        if self.scope.invocation and entry.invocation not in ("", self.scope.invocation):
            return
        nearest: dict[str, tuple[Rule, re.Match[str]]] = {}  # one line counts once in an incident
        besides: re.Match[str] | None = None
        for rule, found in self._found(line, shape):
            for name in rule.withdraws:
                yield from self._withdraw(name)
            key = rule.name if rule.apart else ""
            if self._counts(rule) and self._often_enough(rule, entry.time_us):
                if key not in nearest or rule.level > nearest[key][0].level:
                    nearest[key] = rule, found
            elif not key:
                besides = found
        for rule, found in nearest.values():
            evidence = self._evidence(rule, entry, excerpt(found))
            yield self._take(rule, evidence, line.ranks, entry.invocation)
        known = self._open.get("")
        if besides and known and "" not in nearest and self._near_in_time(known, entry.time_us):
            # no fault by itself, but a line of the one that is known
            known.add(self._evidence(known.rule, entry, excerpt(besides)), line.ranks)
            yield Change("grown", known)

    def _found(self, line: Line, shape: table.Shape) -> Iterator[tuple[Rule, re.Match[str]]]:
        for pattern in shape.candidates:
            rule = pattern.rule
            if line.writer and line.writer not in rule.by:
                continue
            text = line.text if len(line.text) <= 4 * _LONG else table.near(line.text, rule.anchors)
            found = pattern.matches(text)
            if found is None or not self._concerns_us(rule, line):
                continue
            if rule.name not in table.JUDGES or table.JUDGES[rule.name](found):
                yield rule, found

    def _concerns_us(self, rule: Rule, line: Line) -> bool:
        """Tells whether a kernel's line is about a process and a GPU of ours, as far as is known."""
        if line.unit in table.HOST_UNITS:
            return rule.name == table.HOST_UNITS[line.unit]
        if KERNEL not in rule.by:
            return True
        if self.scope.gpus and (gpu := _pci(line.text)) and gpu not in self.scope.gpus:
            return False
        if rule.name not in table.OF_A_PROCESS:
            return True
        pid = _PID.search(line.text)
        if self.scope.pids and pid:
            return int(pid.group(1)) in self.scope.pids
        group = re.search(r"task_memcg=/\S*?([\w@.\-\\:]+\.(?:service|scope))", line.text)
        if group:
            unit = group.group(1)
            return unit in self.scope.units if self.scope.units else normal.may_serve_a_model(unit)
        comm = _COMM.search(line.text)
        name = next((g for g in comm.groups() if g), "") if comm else ""
        return not table.is_another_program(name)

    def _counts(self, rule: Rule) -> bool:
        if rule.action(self.phase) == IGNORE:
            return False
        return not (self.stopping and rule.level <= Level.SYMPTOM and rule.stopping == IGNORE)

    def _often_enough(self, rule: Rule, time_us: int) -> bool:
        if rule.repeat == 1:
            return True
        seen = self._seen.setdefault(rule.name, deque())
        seen.append(time_us)
        while seen and time_us - seen[0] > _REPEAT_US:
            seen.popleft()
        return len(seen) >= rule.repeat

    @staticmethod
    def _evidence(rule: Rule, entry: Entry, text: str) -> Evidence:
        return Evidence(rule.name, text, entry.pid, entry.time_us, entry.cursor, entry.unit)

    @staticmethod
    def _near_in_time(incident: Incident, time_us: int, *, seen: bool = False) -> bool:
        """Says whether something belongs to an incident: near its newest line, or its first where it was ``seen``.

        A line that comes again and again would else explain an end of days later.
        """
        last = incident.first.time_us if seen else incident.last_us
        return not time_us or not last or abs(time_us - last) <= _ONE_FAULT_US

    def _take(self, rule: Rule, evidence: Evidence, ranks: tuple[str, ...], invocation: str, why: str = "") -> Change:
        key = rule.name if rule.apart else ""
        known = self._open.get(key)
        if known is None or not self._near_in_time(known, evidence.time_us, seen=_is_seen(rule)):
            known = Incident(self._number, rule, self.phase, evidence, invocation, why or rule.why)
            self._number += 1
            self.incidents.append(known)
            self._open[key] = known
            kind = "opened"
        elif rule.level > known.rule.level or _asks_for_more(rule, known):
            known.named_by(rule, evidence, why)
            kind = "renamed"
        else:
            kind = "grown"
        known.add(evidence, ranks)
        return Change(kind, known)

    def _withdraw(self, name: str) -> Iterator[Change]:
        for key, incident in list(self._open.items()):
            if incident.rule.name == name:
                del self._open[key]
                self.incidents.remove(incident)
                yield Change("withdrawn", incident)


def _is_seen(rule: Rule) -> bool:
    """Says whether the supervisor sees it itself: no line tells it."""
    return not rule.looks_like and not rule.apart


def _asks_for_more(rule: Rule, known: Incident) -> bool:
    """Says whether what the supervisor saw itself, and no line shows, asks for more than a symptom that is known."""
    no_cause = known.rule.lives_on or rule.level == known.rule.level == Level.SYMPTOM
    return no_cause and _is_seen(rule) and STRENGTH[rule.action(known.phase)] > STRENGTH[known.action]


def classify(entries: Iterable[Entry], detector: Detector) -> list[Incident]:
    """Feeds all entries; returns the incidents, the oldest first."""
    for entry in entries:
        detector.feed(entry)
    return detector.incidents


def _short(text: str, shape: table.Shape) -> str:
    if len(text) <= _LONG:
        return text
    return table.near(text, {anchor for pattern in shape.candidates for anchor in pattern.rule.anchors})


def _pci(text: str) -> str:
    found = re.search(r"PCI:([0-9a-f:]+)", text, re.IGNORECASE)
    return found.group(1).lower() if found else ""
