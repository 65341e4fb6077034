"""Bringing a release up and taking it down: each until it is really there, or really gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from . import load_time, processes, releases, reserve, systemd
from .engine import Engine
from .errors import AgentError, EngineFault, GateFailed, ServiceDown
from .gates.ready import serving
from .gates.smoke import smoke
from .layout import UNITS, Layout
from .operation import TICK_S, Operation
from .promote import forget_others
from .releases import Release

if TYPE_CHECKING:
    from .watch import EngineWatch

_PROGRESS_BYTES = 1 << 20  # less read than this between two looks is a heartbeat, no load
_HEALTH_TIMEOUT_S = 25.0  # SGLang's own limit is 20 s


def engine_of(release: Release) -> Engine:
    return Engine(str(release.manifest["engine"]["host"]), release.port)


def make_known(layout: Layout, release: Release) -> None:
    """Makes systemd know the release's unit and proves that it read this release's text."""
    if release.adopted:
        pass  # its text is its own
    elif (UNITS / release.unit).exists():
        systemd.install(release.unit, (release.directory / release.unit).read_bytes())
    else:
        systemd.link_for_trial(release.unit, release.directory / release.unit)
    # a unit that systemd has not loaded yet is read afresh when it is asked for
    unit = systemd.show(release.unit)
    if unit.load != "loaded" or unit.needs_reload:
        systemd.daemon_reload()
        unit = systemd.show(release.unit)
    if unit.load != "loaded" or unit.needs_reload:
        raise AgentError(
            f"systemd did not load {release.unit}",
            f"load state {unit.load}" + (", an older text is in force" if unit.needs_reload else ""),
            f"systemctl status {release.unit}",
        )


def start(op: Operation, release: Release, *, trial: bool) -> EngineWatch:
    """Starts the release's unit, or takes the watch up again where this operation has started it before."""
    unit = systemd.show(release.unit)
    started = [e for e in op.log.events if e["event"] == "started" and e["unit"] == release.unit]
    # systemd knows the invocation of a unit that has run in this boot: a trial is never started twice
    if trial and not unit.running and (started or unit.invocation):
        raise EngineFault(
            f"{release.unit} ended while nobody watched", f"result {unit.result}, {unit.exit_code} {unit.exit_status}"
        )
    if not unit.running:
        op.log.write("starting", unit=release.unit)
        # what is set aside is for the way back
        unit = _started(op, release) if trial else reserve.start_with_room(op.layout, lambda: _started(op, release))
    if not any(e["invocation"] == unit.invocation for e in started):
        op.log.write("started", unit=release.unit, invocation=unit.invocation, main_pid=unit.main_pid)
    return op.watch(unit, trial=trial)


def _started(op: Operation, release: Release) -> systemd.Unit:
    systemd.start(release.unit)
    unit: systemd.Unit = op.until(lambda: _with_process(release.unit), 30, f"{release.unit} has no process")
    return unit


def _with_process(name: str) -> systemd.Unit | None:
    unit = systemd.show(name)
    if unit.active == "failed":
        raise EngineFault(f"{name} failed at its start", f"result {unit.result}, {unit.exit_code} {unit.exit_status}")
    return unit if unit.main_pid and unit.invocation else None


def load(op: Operation, release: Release, watch: EngineWatch, step: str) -> dict[str, Any]:
    """Waits until the engine answers /health on its own port.

    The deadline is extended by progress: a new line in the journal, or a mebibyte read. It is never
    longer than three times the last measured load, or ``load_cap`` where that is more.
    """
    began = time.monotonic()
    deadlines = release.deadlines
    last = load_time.last(op.layout)
    cap = max(deadlines["load_cap"], 3 * last if last else 0)
    engine = engine_of(release)
    lines, read, moved_at, told = 0, 0, began, 0.0
    while True:
        op.check()
        moment = time.monotonic()
        if processes.of_unit(watch.unit, release.port) and engine.healthy(_HEALTH_TIMEOUT_S):
            seconds = round(time.monotonic() - began, 2)
            with contextlib.suppress(OSError):  # a full disk: the next plan only lacks a figure
                load_time.note(op.layout, release, seconds)
            return {"seconds_to_health": seconds}
        now_read = processes.bytes_read(watch.unit.cgroup)
        if watch.lines > lines or now_read - read > _PROGRESS_BYTES:
            lines, read, moved_at = watch.lines, max(read, now_read), moment
        if moment - moved_at > deadlines["load_silence"]:
            raise EngineFault(
                f"the load of {release.unit} made no progress for {deadlines['load_silence']:g} s",
                "no line in the journal, nothing read",
                evidence={"last_lines": list(watch.recent)[-5:], "after_seconds": round(moment - began, 1)},
            )
        if moment - began > cap:
            raise EngineFault(
                f"the load of {release.unit} took longer than {cap:g} s",
                f"three times the last measured load ({last or 0:g} s), at least {deadlines['load_cap']:g} s",
                evidence={"last_lines": list(watch.recent)[-5:]},
            )
        if moment - told > 1 and watch.recent:
            told = moment
            op.progress(step, watch.recent[-1].strip()[:160])
        time.sleep(TICK_S)


def take_down(op: Operation, release: Release, *, at_once: bool) -> dict[str, Any]:
    """Stops a release until its control group is empty and its port is free.

    ``at_once`` kills the whole group first: a faulted engine has nothing left to drain. Raises
    ServiceDown where something outlives even SIGKILL: then nothing may be started.
    """
    unit = systemd.show(release.unit)
    if at_once:
        processes.kill(unit.cgroup)
    if unit.load != "not-found":
        systemd.systemctl("stop", "--no-block", release.unit)
    end = time.monotonic() + release.deadlines["stop"]
    killed = at_once
    while left := _left(unit, release):
        if not processes.pids(unit.cgroup):
            _end_orphans(unit)
        if time.monotonic() > end and not killed:
            killed = True
            op.progress("stop", f"{release.unit} does not stop, sending SIGKILL")
            processes.kill(unit.cgroup)
            end = time.monotonic() + 10
        elif time.monotonic() > end:
            raise _not_gone(op, release.unit, left)
        time.sleep(TICK_S)
    systemd.systemctl("reset-failed", release.unit, check=False)
    return {"killed": killed}


def end_strays(op: Operation, keep: Release) -> None:
    """Ends every release of the service that runs and is not the one to keep, also those whose files are damaged.

    Nothing is left of their units, but of the one that boots.
    """
    for unit in strays(op.layout, keep):
        processes.kill(unit.cgroup)
        systemd.systemctl("stop", "--no-block", unit.name, check=False)
        if alive := processes.pids(unit.cgroup):
            raise _not_gone(op, unit.name, ", ".join(processes.describe(p) for p in sorted(alive)))
    forget_others(op.layout, keep)


def strays(layout: Layout, keep: Release | None) -> list[systemd.Unit]:
    """Returns the units of releases of which something is there, but for the one to keep."""
    output = systemd.systemctl("list-units", "--all", "--plain", "--no-legend", f"{layout.name}-[0-9]*.service")
    names = {line.split()[0] for line in output.splitlines() if line.strip()} - {keep.unit if keep else ""}
    return [unit for unit in map(systemd.show, sorted(names)) if remains(unit)]


def remains(unit: systemd.Unit) -> bool:
    """Says whether anything of a unit is there; systemd calls one failed whose last process it could not kill."""
    return unit.running or bool(processes.pids(unit.cgroup))


def _end_orphans(unit: systemd.Unit) -> None:
    """Kills what has left the control group of a unit that is over: it holds memory, or the port."""
    for pid in processes.of_invocation(unit.invocation):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _not_gone(op: Operation, unit: str, left: str) -> ServiceDown:
    if "state D" in left:
        hint = f"it ends with what it waits for, or with a reboot, which starts {systemd.boots(op.layout)}"
    else:
        hint = "end it by hand"
    why = "nothing is started while it holds memory or its port"
    return ServiceDown(f"{unit} is not gone: {left}", why, f"{hint}; then: {op.layout.rollback_script}")


def _left(unit: systemd.Unit, release: Release) -> str:
    if alive := processes.pids(unit.cgroup) or processes.of_invocation(unit.invocation):
        return ", ".join(processes.describe(p) for p in sorted(alive))
    if inodes := processes.listener(release.port):
        owners = sorted(processes.holders(inodes))
        return f"port {release.port} is held by " + (
            ", ".join(processes.describe(p) for p in owners) or "nobody visible"
        )
    return "" if not systemd.show(unit.name).running else f"systemd still calls {unit.name} running"


def settle(op: Operation, release: Release, step: str) -> dict[str, Any]:
    """Brings up a release that was good before, and proves it by right answers. Opens nothing."""
    with op.log.step(step) as found:
        reserve.spend_on_engine_if_short(op.layout)
        try:
            _bring_up(op, release, step, found)
        except (EngineFault, GateFailed):
            if not reserve.spend_on_engine_if_short(op.layout):
                raise
            take_down(op, release, at_once=True)  # the disk became full meanwhile
            _bring_up(op, release, step, found)
        note_live(op, release)
    return found


def _bring_up(op: Operation, release: Release, step: str, found: dict[str, Any]) -> None:
    reserve.with_room(op.layout, lambda: make_known(op.layout, release))
    unit = systemd.show(release.unit)
    if unit.active not in ("active", "activating") and _left(unit, release):
        take_down(op, release, at_once=True)  # what an earlier stop could not end
    watch = start(op, release, trial=False)
    found.update(load(op, release, watch, step))
    engine, seconds = engine_of(release), release.deadlines["gates"]
    found["ready"] = serving(release, engine, watch.unit.invocation, seconds)
    found["smoke"] = smoke(engine, release.gates["smoke"], seconds)


def note_live(op: Operation, release: Release) -> None:
    """Points live at a release that serves; on a full disk it serves all the same."""
    try:
        releases.point(op.layout.live, release)
    except OSError as error:
        op.log.write("warning", what=f"the pointer live cannot be written: {error}")
