"""Keeping watch after promotion, while no operation is under way: an incident is acted on once, with brakes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from . import brakes, incidents, notices, releases, requests, systemd
from .errors import AgentError, Locked
from .eye import Eye
from .faults import Incident
from .faults.model import STRENGTH
from .layout import Layout
from .releases import Release

_LOOK_S = 5.0
_ENDS = ("engine-ended", "engine-ended-0")


class Guard:
    """The supervisor's watch over the promoted engine."""

    def __init__(self, layout: Layout, tell: Callable[[str], None]) -> None:
        self._layout, self._tell = layout, tell
        self._eye: Eye | None = None
        self._release: Release | None = None
        self._look_at = 0.0
        self._acted: dict[int, int] = {}
        self._waiting: list[Incident] = []  # what could not be acted on yet
        self._left: list[tuple[Release, str, Incident]] = []  # the same, of a watch that was let go

    def descriptors(self) -> list[int]:
        """Returns what a select can wait on."""
        return self._eye.descriptors() if self._eye else []

    def let_go(self, *, failed: bool = False) -> None:
        """Ends the watch: an operation takes the engine in hand. What was not acted on, the next watch finds again."""
        if self._eye:
            self._eye.close(remembers=not (failed or self._waiting))
        if self._release:
            waiting = {incident.number: incident for incident in self._waiting}.values()
            self._left += [(self._release, self._invocation(incident), incident) for incident in waiting]
        self._eye, self._look_at, self._acted, self._waiting = None, 0.0, {}, []

    def look(self) -> None:
        """Reads what is new and acts on it; finds the engine again where it was started anew."""
        try:
            self._look()
        except (AgentError, OSError) as error:
            self._tell(f"the promoted engine cannot be watched: {error}")
            self.let_go(failed=True)
            self._look_at = time.monotonic() + _LOOK_S

    def _look(self) -> None:
        found: list[Incident] = []
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            self._attach()
            notices.send(self._layout)
            if self._eye:
                self._remember()  # what is found next is not yet acted on
                found += self._eye.look_around()
        if self._eye:
            found += self._eye.poll()
        self._waiting = [incident for incident in (*self._waiting, *found) if not self._act(incident)]
        if found:
            self._remember()  # what was acted on is not acted on again

    def _remember(self) -> None:
        if self._eye and not self._waiting:
            with contextlib.suppress(OSError):  # no room: a later life reads some of it again
                self._eye.remember()

    def _attach(self) -> None:
        """Watches known-good's newest invocation, also one that ended while nobody watched."""
        release = releases.pointed_if_whole(self._layout, self._layout.known_good)
        if release is None:
            return self.let_go()
        unit = systemd.show(release.unit)
        if not unit.invocation or (self._eye and self._eye.unit.invocation == unit.invocation):
            return None
        self.let_go()
        self._look_at = time.monotonic() + _LOOK_S
        self._release = release
        self._eye = Eye(self._layout, release, unit, brakes.policy_of(release).ask_every)
        left, self._left = self._left, []
        for of, invocation, incident in left:
            if invocation != unit.invocation:  # of this one it is found again
                because = "somebody else had the service in hand, and it was started anew"
                self._note(of, invocation, incident, brakes.Decision("page", because))
        return None

    def _act(self, incident: Incident) -> bool:
        """Acts on an incident, and again only where its cause, found later, asks for more.

        Returns False where somebody else has the service in hand just now: nothing was done about it then.
        """
        assert self._release is not None  # noqa: S101 - incidents come from an eye, and that from a release
        if STRENGTH[incident.action] <= self._acted.get(incident.number, -1):
            return True
        ours = self._invocation(incident)
        known = {(r["rule"], r["cursor"]) for r in incidents.of(self._layout) if r["invocation"] == ours}
        told = (incident.rule.name, incident.first.cursor) in known
        if told and (incident.first.cursor or incident.rule.name in _ENDS):
            return True  # before the supervisor was started anew
        decision = brakes.decide(self._layout, self._release, incident.action)
        if decision.action == "ignore":
            return True
        if decision.action != "page" and not self._filed(incident, decision):
            return False
        self._acted[incident.number] = STRENGTH[incident.action]
        self._note(self._release, ours, incident, decision)
        return True

    def _note(self, release: Release, invocation: str, incident: Incident, decision: brakes.Decision) -> None:
        """Records an incident with what is done about it, and has somebody told."""
        said = f"{incident.rule.name} in release {release.number}: {decision.action}"
        self._tell(said + (f" ({decision.because})" if decision.because else ""))
        incidents.record(
            self._layout,
            {
                "release": release.number,
                "rule": incident.rule.name,
                "class": incident.rule.fault,
                "why": incident.why,
                "line": incident.first.line,
                "cursor": incident.first.cursor,
                "invocation": invocation,
                "asks_for": incident.action,
                "action": decision.action,
                "because": decision.because,
            },
        )
        text = f"{incident.rule.name}: {incident.why}; {_DOES[decision.action]}"
        notices.leave(
            self._layout,
            text + (f" because {decision.because}" if decision.because else ""),
            release=release.number,
            action=decision.action,
            because=decision.because,
            incident=incident.record(),
        )

    def _invocation(self, incident: Incident) -> str:
        return incident.invocation or (self._eye.unit.invocation if self._eye else "")

    def _filed(self, incident: Incident, decision: brakes.Decision) -> bool:
        """Files the operation; False where the lock is held: a release is being stored, or an operation begins.

        That one may be refused, or bring the engine back: the watch after it will tell.
        """
        request: dict[str, Any] = {
            "kind": decision.action,
            "to": decision.to,
            "by": requests.SUPERVISOR,
            "reason": {
                "code": "engine-fault",
                "what": f"fault in the engine: {incident.rule.name}",
                "why": incident.why,
            },
        }
        try:
            requests.file(self._layout, request)
        except Locked:
            return False
        return True


_DOES = {"page": "nothing is done about it", "restart": "it is restarted", "rollback": "the host rolls back"}
