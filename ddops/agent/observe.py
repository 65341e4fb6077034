"""What a service does right now, told as it changes: for ``ddops watch``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from . import brakes, decode, front, incidents, releases, steplog, systemd
from .journal import Journal
from .layout import Layout

_EVERY_S = 1.0
_LOOK_S = 0.2
_TAIL = 200  # lines of the engine that are read at the beginning: one of them is a decode line


def watch(layout: Layout, after: int | None) -> Iterator[dict[str, Any]]:
    """Yields a state each second, and steps and incidents as they come, until nobody listens.

    Incidents are numbered from 1; those above ``after`` are told, None: those that are new from now on.
    """
    known = len(incidents.of(layout)) if after is None else after
    engine, steps, told = _Engine(), _Steps(), 0.0
    while True:
        for incident in incidents.of(layout)[known:]:
            known += 1
            yield {"event": "incident", "number": known, **incident}
        yield from steps.new(layout)
        if time.monotonic() - told >= _EVERY_S:
            told = time.monotonic()
            engine.follow(layout)
            yield {"event": "state", **_state(layout), **engine.figures(), "incidents": known}
        time.sleep(_LOOK_S)


class _Steps:
    """The events of the operation under way."""

    def __init__(self) -> None:
        self._operation, self._after = 0, -1

    def new(self, layout: Layout) -> Iterator[dict[str, Any]]:
        """Yields those that were not told yet; of one that was under way before, from its first."""
        current = steplog.under_way(layout)
        if current is None:
            return
        if current["operation"] != self._operation:
            self._operation, self._after = int(current["operation"]), -1
        for event in steplog.read(steplog.steps_file(layout, self._operation), self._after):
            self._after = event["n"]
            if event["event"] in ("step", "step-failed", "fault", "noticed", "cancelled"):
                yield {**event, "operation": self._operation}


def _state(layout: Layout) -> dict[str, Any]:
    live = releases.pointed_if_whole(layout, layout.live)
    current = steplog.under_way(layout)
    pause = brakes.paused(layout)
    return {
        "time": steplog.now(),
        "service": layout.name,
        "release": live.number if live else None,
        "budget": live.manifest.get("budget") if live else None,
        "engine": systemd.show(live.unit).active if live else "none",
        "front": front.state(layout, live),
        "under_way": f"{current['kind']}: {steplog.at_step(layout, current)}" if current else None,
        "paused": pause["by"] if pause else None,
        "paused_until": pause["until"] if pause else None,
    }


class _Engine:
    """The live engine's newest decode line."""

    def __init__(self) -> None:
        self._journal: Journal | None = None
        self._invocation = self._line = ""
        self._at = 0.0

    def follow(self, layout: Layout) -> None:
        """Reads what is new; another invocation is followed from its last lines on."""
        live = releases.pointed_if_whole(layout, layout.live)
        unit = systemd.show(live.unit) if live else None
        if unit and unit.invocation and unit.invocation != self._invocation:
            if self._journal:
                self._journal.close()
            self._journal = Journal([f"_SYSTEMD_INVOCATION_ID={unit.invocation}"], last=_TAIL)
            self._invocation, self._line = unit.invocation, ""
        for entry in self._journal.entries() if self._journal else ():
            if decode.is_decode(entry.message):
                self._line, self._at = entry.message, entry.time_us / 1e6

    def figures(self) -> dict[str, Any]:
        """Returns what the line says, and its age in seconds; None where it does not say."""
        age_s = round(time.time() - self._at, 1) if self._line else None
        return {**decode.figures(self._line), "age_s": age_s}
