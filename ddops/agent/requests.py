"""Requests to the supervisor: filed under the lock, so that two operators cannot both be first."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import durable, lock, notices, releases, reserve, steplog, systemd, wake
from .errors import AgentError, Locked, NoRoom, Refused
from .layout import BOOT_WANTS, UNITS, Layout

_BACK = ("rollback", "restart")
_WAITS = ("the disk of the host is full", "steps and outcome are stored when it has room", "free space: df -h; df -i")
SUPERVISOR = "the supervisor"  # as the one who asks
SUPERVISOR_UNIT = "ddops-supervisor@.service"


def file(layout: Layout, request: dict[str, Any]) -> int:
    """Files a request and wakes the supervisor; returns the operation's number.

    Raises Locked where another operation is under way.
    """
    with lock.held(layout):
        if steplog.under_way(layout) is not None:
            raise lock.locked_by(layout)
        for leftover in (layout.cancel, layout.confirmed):
            durable.remove(leftover)
        operation = _start(layout, request)
    wake.ring(layout)
    return operation


def _start(layout: Layout, request: dict[str, Any]) -> int:
    """Files the request; one for the way back also on a full disk, with what was set aside for it."""
    if request["kind"] not in _BACK:
        return steplog.start(layout, request)
    return reserve.with_room(layout, lambda: steplog.start(layout, request))


def install_supervisor(layout: Layout, unit_text: str, agent: bytes, notify: dict[str, Any]) -> None:
    """Installs, enables and starts the service's supervisor with this agent; nothing where all is so already.

    ``notify`` is the site's: where notices go.

    Raises Locked while an operation is under way: the agent is never replaced in the middle of one.
    """
    supervisor = systemd.show(layout.supervisor)
    systemd.must_not_be_masked(supervisor)
    durable.make_directory(layout.operations, 0o700)
    with lock.held(layout):
        if steplog.under_way(layout) is not None:
            raise lock.locked_by(layout)
        changed = not layout.agent.exists() or layout.agent.read_bytes() != agent
        if changed:
            durable.write(layout.agent, agent)
        notices.send_to(layout, notify)
        # one that needs a reload was written by somebody who did not come to it
        if systemd.install(SUPERVISOR_UNIT, unit_text.encode()) or supervisor.needs_reload:
            changed = True
            systemd.daemon_reload()
        wanted = BOOT_WANTS / layout.supervisor
        if not wanted.is_symlink():
            BOOT_WANTS.mkdir(exist_ok=True)
            durable.link(wanted, str(UNITS / SUPERVISOR_UNIT))
            systemd.daemon_reload()
    if changed or supervisor.active != "active":
        systemd.systemctl("reset-failed", layout.supervisor, check=False)
        systemd.systemctl("restart", layout.supervisor)


def rollback(layout: Layout, to: int | None, by: str) -> dict[str, Any]:
    """Asks for the way back; returns the operation that goes it.

    A deploy that is under way is ended and goes back by itself; a way back that is under way already is
    joined, unless a release is named. Where no supervisor can be had, a process of its own carries it out.
    """
    current = steplog.under_way(layout)
    if current and current["kind"] == "deploy":
        if to is not None:
            known = durable.read_json(layout.known_good) or {}
            if known.get("release") != to:
                raise Locked(
                    "a trial is under way",
                    "first end it: it goes back to known-good",
                    "ddops rollback, then --to N",
                )
        durable.make_directory(layout.run, 0o711)
        durable.write_json(layout.cancel, {"operation": current["operation"], "by": by})
        wake.ring(layout)
        if not _supervisor_alive(layout):
            _operate_detached(layout)
        return {"operation": current["operation"], "ended": "trial"}
    alive = _supervisor_alive(layout)
    try:
        asked: dict[str, Any] = {"operation": file(layout, {"kind": "rollback", "to": to, "by": by})}
    except Locked:
        current = steplog.under_way(layout)
        if current is None or to is not None or not _goes_back(current):
            raise
        asked = {"operation": current["operation"], "joined": f"{current['kind']} by {current['by']}"}
    if not alive:
        _operate_detached(layout)
    return asked


def _goes_back(request: dict[str, Any]) -> bool:
    """Says whether an operation is what a rollback with no release named asks for."""
    return request["kind"] in _BACK and (request.get("to") is None or request["by"] == SUPERVISOR)


def confirm(layout: Layout, by: str) -> dict[str, Any]:
    """Confirms the trial that waits for it; raises Refused where none does."""
    current = steplog.under_way(layout)
    events = list(steplog.read(steplog.steps_file(layout, current["operation"]))) if current else []
    waits = [e for e in events if e.get("step") == "confirm"]
    if current is None or not waits or waits[-1]["event"] != "step":
        raise Refused("no release waits for a confirmation", "", "ddops status")
    durable.write_json(layout.confirmed, {"operation": current["operation"], "by": by})
    return {"operation": current["operation"], "by": by}


def _supervisor_alive(layout: Layout) -> bool:
    """Makes sure of a supervisor, starting it where it is not active."""
    with contextlib.suppress(AgentError):
        if systemd.show(layout.supervisor).active != "active":
            systemd.systemctl("reset-failed", layout.supervisor, check=False)
            systemd.systemctl("start", layout.supervisor, timeout=10)
        return systemd.show(layout.supervisor).active == "active"
    return False


def _operate_detached(layout: Layout) -> None:
    """Carries out what is under way in a process of its own, which a lost connection does not end."""
    subprocess.Popen(
        [sys.executable, "-IS", sys.argv[0], "operate", layout.name],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def stage(layout: Layout, archive: bytes, manifest: bytes, overlay_of: int | None) -> dict[str, Any]:
    """Stores a release that has arrived; returns its summary."""
    with lock.held(layout):
        if steplog.under_way(layout) is not None:
            raise lock.locked_by(layout)
        return releases.unpack(layout, archive, manifest, overlay_of).summary()


def follow(layout: Layout, operation: int, after: int, heartbeat_s: float = 1.0) -> Any:
    """Yields the steps of an operation above number ``after``, a heartbeat each second, then the outcome."""
    steps, outcome = steplog.steps_file(layout, operation), steplog.outcome_file(layout, operation)
    if not steplog.request_file(layout, operation).exists():
        raise Refused(f"operation {operation} is not known on this host", "", "ddops history")
    told, size, full = time.monotonic(), -1, False
    while True:
        ended = outcome.exists()  # asked before the steps are read: none is missed
        if (now := _size(steps)) != size:
            size = now
            for event in steplog.read(steps, after):
                after = event["n"]
                yield event
        if ended:
            yield {"event": "result", "result": durable.read_json(outcome)}
            return
        if time.monotonic() - told > heartbeat_s:
            told = time.monotonic()
            yield {"event": "alive"}
            if not full and (full := reserve.full(layout)):
                yield {"event": "no-room", **NoRoom(*_WAITS).record()}
        time.sleep(0.01)


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
