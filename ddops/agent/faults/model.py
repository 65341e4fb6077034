"""The words of fault detection: a rule, what it does in which phase, and how sure a line makes us."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

IGNORE, PAGE, RESTART, ROLLBACK = "ignore", "page", "restart", "rollback"
STRENGTH = {IGNORE: 0, PAGE: 1, RESTART: 2, ROLLBACK: 3}
TRIAL, PROMOTED, STARTING, STOPPING = "trial", "promoted", "starting", "stopping"
PHASES = (TRIAL, PROMOTED, STARTING, STOPPING)

ENGINE, SYSTEMD, KERNEL, JOURNALD, COREDUMP, OTHER = "engine", "systemd", "kernel", "journald", "coredump", "other"


class Level(IntEnum):
    """How near a line is to the cause. The nearest names the incident; among equals the first does."""

    CONSEQUENCE = 0  # what happens after any fault: a signal, an exit
    SYMPTOM = 1  # something is wrong, the reason is told elsewhere
    CAUSE = 2
    ROOT = 3  # hardware or host: it explains every other line beside it


@dataclass(frozen=True)
class Rule:
    """One line of the table.

    Each of ``looks_like`` is an expression that is searched, without regard to case, in a line whose
    prefixes were taken off. Every line that matches holds one of ``anchors`` (lower case, no digits):
    they are looked for first, since that is fast. ``unless`` excuses the line. ``by`` names who may write
    it. ``repeat`` lines are needed within ten minutes. ``apart`` keeps the incident out of others: it is
    about evidence or the host, not about the engine. ``withdraws`` names rules whose incident was none. After one that
    ``lives_on`` the engine does: its end is another matter.
    """

    name: str
    fault: str
    looks_like: tuple[str, ...]
    anchors: tuple[str, ...]
    why: str
    example: str
    look_alike: str
    trial: str = ROLLBACK
    promoted: str = PAGE
    starting: str = ""
    stopping: str = IGNORE
    severity: str = "fatal"
    level: Level = Level.CAUSE
    by: tuple[str, ...] = (ENGINE,)
    unless: str = ""
    repeat: int = 1
    apart: bool = False
    withdraws: tuple[str, ...] = ()
    lives_on: bool = False

    def action(self, phase: str) -> str:
        """Returns what is to be done in a phase; a release that starts is a trial, unless said otherwise."""
        return {TRIAL: self.trial, PROMOTED: self.promoted, STARTING: self.starting or self.trial}.get(
            phase, self.stopping
        )

    @property
    def runbook(self) -> str:
        return f"docs/faults/{self.fault}.md#{self.name}"


@dataclass(frozen=True)
class Pattern:
    """A rule with its expressions compiled."""

    rule: Rule
    search: re.Pattern[str]
    unless: re.Pattern[str] | None

    def matches(self, text: str) -> re.Match[str] | None:
        """Returns where the rule's look is in a text, None if it is not there or is excused."""
        excused = -1
        for found in self.search.finditer(text):
            if self.unless is None:
                return found
            if found.start() < excused:
                continue
            begin, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
            end = len(text) if end < 0 else end
            if not self.unless.search(text, begin, end):
                return found
            excused = end
        return None


def compiled(rule: Rule) -> Pattern:
    flags = re.IGNORECASE | re.MULTILINE
    return Pattern(
        rule, re.compile("|".join(rule.looks_like), flags), re.compile(rule.unless, flags) if rule.unless else None
    )
