"""The supervisor: the one actor on the host. It takes up requests, watches, and finishes alone."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from . import adopt, deploy, durable, front, lock, notices, releases, reserve, rollback, state, steplog, systemd, wake
from .errors import AgentError, Locked, Refused
from .guard import Guard
from .layout import Layout
from .operation import TICK_S, Operation
from .requests import SUPERVISOR

KINDS = {"adopt": adopt.run, "deploy": deploy.run, "rollback": rollback.run, "restart": rollback.restart}
_IDLE_S = 5.0
_WATCHDOG_S = 5.0


def supervise(layout: Layout) -> None:
    """Runs until it is killed, at any moment; an operation that an earlier life left is taken up again.

    Raises TooNew where the state has become a newer ddops' meanwhile.
    """
    # engines are asked over loopback, in plain HTTP: http.client does without, and the supervisor with 4 MB less
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]
    durable.make_directory(layout.run, 0o711)
    try:
        state.mark(layout)
    except OSError as error:  # a full disk, one that is read-only: no reason not to keep watch
        _journal(f"the state's format cannot be stored: {error}")
    guard = Guard(layout, _journal)
    with wake.listening(layout) as bell:
        systemd.notify("READY=1")
        while True:
            systemd.notify("WATCHDOG=1")
            request = steplog.under_way(layout)
            if request is None:
                _keep_reserve(layout)
                guard.look()
                _wait([bell, *guard.descriptors()], _IDLE_S)
                continue
            guard.let_go()
            state.must_be_readable(layout)  # somebody with a newer ddops acted while this one could not
            try:
                with lock.held(layout):
                    operate(layout, request, bell, _journal)
            except Locked:
                _wait([bell], TICK_S)  # whoever filed the request still holds it


def _keep_reserve(layout: Layout) -> None:
    """Sets room aside for the way back; on a full disk that waits, and a deploy is refused meanwhile."""
    with contextlib.suppress(OSError):
        reserve.keep(layout)


def _journal(line: str) -> None:
    with contextlib.suppress(OSError):  # without journald nobody listens; that must not end an operation
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def operate(
    layout: Layout,
    request: dict[str, Any],
    bell: socket.socket | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Carries one operation to its end and stores its outcome. The caller holds the lock."""
    request = {**request, "rebooted": request["boot_id"] != steplog.boot_id()}
    op = Operation(layout, request, tell)
    began = time.monotonic()
    op.log.write("taken-up", kind=request["kind"], pid=os.getpid(), rebooted=request["rebooted"])
    if cancel := _read_cancel(layout, op.log.operation):
        op.cancel(cancel)
    result: dict[str, Any] = {}

    def work() -> None:
        result.update(_run(op))
        wake.ring(layout)  # nobody has to look whether it has ended

    worker = threading.Thread(target=work, name=request["kind"])
    worker.start()
    told = 0.0
    while worker.is_alive():
        _wait([*([bell] if bell else []), *op.descriptors()], TICK_S)
        op.look()
        if cancel := _read_cancel(layout, op.log.operation):
            op.cancel(cancel)
        if time.monotonic() - told > _WATCHDOG_S:
            told = time.monotonic()
            systemd.notify("WATCHDOG=1")
    worker.join()
    op.unwatch()
    outcome = {
        "operation": op.log.operation,
        "kind": request["kind"],
        "by": request["by"],
        "began": request["time"],
        "ended": steplog.now(),
        "seconds": round(time.monotonic() - began, 2),
        **result,
        "faults": [e for e in op.log.events if e["event"] == "fault"],
        "noticed": [e for e in op.log.events if e["event"] == "noticed"],
        "steps": op.log.times(),
    }
    op.log.write("outcome", outcome=outcome["outcome"])
    op.log.close()
    stored = _store(layout, outcome)
    _notify(layout, stored, expected=bool(request.get("measure")))
    _write_ledger(layout)
    return stored


def _write_ledger(layout: Layout) -> None:
    """Starts bringing the ledger up to date, in a process of its own: nobody waits, and it costs no memory here."""
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-IS", sys.argv[0], "ledger", layout.name],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


def _notify(layout: Layout, outcome: dict[str, Any], *, expected: bool) -> None:
    """Leaves a notice of what a person should know of: a trial that failed, a way back that failed or was refused.

    That a cell of a sweep fails is ``expected``: it is what the sweep finds out, and its study has it.
    """
    asked_for = expected or outcome["kind"] == "rollback"
    told = ("rollback-failed",) if asked_for else ("rolled-back", "not-better", "rollback-failed")
    refused = outcome["outcome"] == "refused" and outcome["by"] == SUPERVISOR  # it was told as done
    if outcome["outcome"] not in told and not refused:
        return
    reason = (outcome.get("reason") or {}).get("what", "")
    keys = ("operation", "kind", "by", "outcome", "reason", "release", "previous", "host")
    notices.leave(layout, f"{outcome['kind']}: {outcome['outcome']}; {reason}", **{k: outcome.get(k) for k in keys})


def _store(layout: Layout, outcome: dict[str, Any]) -> dict[str, Any]:
    """Stores the outcome with what is really on the host now; waits for room on a full disk."""
    while True:
        try:
            if outcome["outcome"] != "refused":
                _mend_known_good(layout)
                _mend_front(layout)
            _mend_live(layout)
            outcome = {**outcome, "host": _read_back(layout)}
            steplog.finish(layout, outcome["operation"], outcome)
        except OSError as error:
            _journal(f"the outcome cannot be stored: {error}")
            systemd.notify("WATCHDOG=1")
            time.sleep(_IDLE_S)
        else:
            return outcome


def _mend_known_good(layout: Layout) -> None:
    """Points known-good at what boots where the pointer names another: the rename of what boots needs no room."""
    known_good, boots = releases.pointed_if_whole(layout, layout.known_good), systemd.boots(layout)
    if known_good is None or boots is None or known_good.unit == boots:
        return
    for number in releases.numbers(layout):
        with contextlib.suppress(AgentError):
            if (release := releases.load(layout, number)).unit == boots:
                releases.point(layout.known_good, release)


def _mend_front(layout: Layout) -> None:
    """Stores where the front leads to after a boot, which a full disk has kept from being stored."""
    known_good = releases.pointed_if_whole(layout, layout.known_good)
    if known_good and known_good.front and layout.front_target.exists():
        front.store_target(layout, known_good)


def _mend_live(layout: Layout) -> None:
    """Points live at known-good where that is what runs: the pointer could not be written, perhaps."""
    known_good = releases.pointed_if_whole(layout, layout.known_good)
    live = releases.pointed_if_whole(layout, layout.live)
    if known_good is None or (live and live.number == known_good.number):
        return
    if systemd.show(known_good.unit).running and not (live and systemd.show(live.unit).running):
        releases.point(layout.live, known_good)


def _run(op: Operation) -> dict[str, Any]:
    try:
        if op.request["kind"] not in KINDS:
            return _unknown(op)
        return KINDS[op.request["kind"]](op)
    except Exception as error:  # noqa: BLE001 - an operation must end with an outcome, whatever happened in it
        record = error.record() if isinstance(error, AgentError) else {"code": "internal", "what": repr(error)}
        return {
            "outcome": "rollback-failed",
            "reason": record,
            "release": None,
            "previous": None,
            "verdicts": [],
        }


def _unknown(op: Operation) -> dict[str, Any]:
    """Refuses what only another ddops has: nothing was begun."""
    error = Refused(
        f"the supervisor of {op.layout.name} knows no '{op.request['kind']}'",
        "a client of another version has asked for it",
        "ddops deploy brings the client's own supervisor",
    )
    return {"outcome": "refused", "reason": error.record(), "release": None, "previous": None, "verdicts": []}


def _read_back(layout: Layout) -> dict[str, Any]:
    """Returns what really is on the host now, not what the operation believes."""
    found: dict[str, Any] = {}
    for name, path in (("live", layout.live), ("known_good", layout.known_good)):
        try:
            release = releases.pointed(layout, path)
        except AgentError as error:
            found[name] = {"error": error.record()}
            continue
        found[name] = release.number if release else None
        if name == "live" and release:
            unit, proxy = systemd.shown(release.unit, layout.front_service)
            found.update(unit=unit.name, active=unit.active, main_pid=unit.main_pid)
            found["front"] = front.state(layout, release, proxy)
    found["boots"] = systemd.boots(layout)
    return found


def _wait(waited: list[Any], seconds: float) -> None:
    try:
        ready, _, _ = select.select(waited, [], [], seconds)
    except (OSError, ValueError):
        return  # the operation has just closed what it watched
    for one in ready:
        if isinstance(one, socket.socket):
            with contextlib.suppress(BlockingIOError):
                while one.recv(64):
                    pass


def _read_cancel(layout: Layout, operation: int) -> str:
    with contextlib.suppress(ValueError):
        asked = durable.read_json(layout.cancel)
        if asked and asked["operation"] == operation:
            return str(asked["by"])
    return ""
