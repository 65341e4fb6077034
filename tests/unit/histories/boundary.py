"""Where the real agent meets a host in memory: what its modules call outside of themselves leads there."""

from __future__ import annotations

import errno
import os
import shutil
import ssl  # noqa: F401 - the supervisor sees to it that nobody imports it later
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from ddops.agent import (
    __main__,
    adopt,
    brakes,
    deploy,
    durable,
    engine,
    eye,
    front,
    guard,
    handmade,
    journal,
    layout,
    lock,
    notices,
    observe,
    operation,
    preflight,
    processes,
    promote,
    releases,
    requests,
    reserve,
    restore,
    rollback,
    seen,
    sending,
    service,
    soak,
    stack,
    status,
    steplog,
    supervisor,
    systemd,
    wake,
    watch,
)
from ddops.agent.gates import acceptance, lossless, ready, smoke

from .engines import Answers

if TYPE_CHECKING:
    from .host import Host

MODULES = [
    __main__, adopt, brakes, deploy, durable, engine, eye, front, guard, handmade, journal, layout, lock, notices,
    observe, operation, preflight, processes, promote, releases, requests, reserve, restore, rollback, seen,
    service, soak, stack, status, sending, steplog, supervisor, systemd, wake, watch,
    acceptance, lossless, ready, smoke,
]  # fmt: skip


class Boundary:
    """Exchanges what the agent's modules call, until it is undone."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._undo: list[tuple[Any, str, Any]] = []
        self._connect()

    def _connect(self) -> None:
        turns, units, readers = self._host.turns, self._host.units, journal.Journal
        for module in MODULES:
            known = vars(module)
            for name, value in (
                ("UNITS", self._host.etc),
                ("RUNTIME_UNITS", self._host.run_units),
                ("BOOT_WANTS", self._host.etc / "multi-user.target.wants"),
                ("LAB_MARK", self._host.root / "lab"),
            ):
                if name in known:
                    self._set(module, name, value)
            if known.get("time") is time:
                self._set(module, "time", turns)
            if "ThreadPoolExecutor" in known:
                self._set(module, "ThreadPoolExecutor", _OneAfterAnother)
            if known.get("Journal") is readers:
                self._set(module, "Journal", self._host.journal.open)
        self._set(supervisor, "select", SimpleNamespace(select=turns.selects))
        self._set(supervisor, "threading", SimpleNamespace(Thread=turns.thread))
        self._set(watch, "select", SimpleNamespace(select=turns.looks))
        self._set(eye, "select", SimpleNamespace(select=turns.looks))
        # the guard's own questions come from a thread of their own: here the journal and the process tell
        nobody = SimpleNamespace(start=lambda: None)
        self._set(eye, "threading", SimpleNamespace(
            Thread=lambda **_: nobody, Event=lambda: SimpleNamespace(set=lambda: None)
        ))  # fmt: skip
        for module in (watch, eye):
            self._set(module, "os", SimpleNamespace(close=lambda _: None))
        self._set(systemd, "systemctl", units.systemctl)
        self._set(systemd, "must_run", lambda: None)
        for name in ("kill", "pids", "listener", "holders"):
            self._set(processes, name, getattr(units, name))
        self._set(processes, "open_process", self._open_process)
        self._set(processes, "of_invocation", lambda _: set())
        self._set(processes, "bytes_read", lambda _: 0)
        self._set(processes, "connections", lambda _: 0)
        self._set(processes, "describe", lambda pid: f"pid {pid}")
        self._set(front, "accepts", units.accepts)
        self._set(front, "subprocess", SimpleNamespace(run=units.close_listener, DEVNULL=None))
        self._set(preflight, "shutil", SimpleNamespace(which=lambda _: "/usr/bin/ss"))
        answers = Answers(self._host)
        self._set(engine.Engine, "_ask", lambda e, *a: answers.ask(e, *a))
        self._set(engine.Engine, "stream", lambda e, *a: answers.stream(e, *a))
        self._set(steplog, "boot_id", lambda: f"boot-{self._host.boot}")
        for module in (adopt, handmade):
            self._set(module, "Path", self._path)
        quiet = SimpleNamespace(Popen=lambda *_, **__: None, DEVNULL=None)
        self._set(notices, "subprocess", quiet)
        self._set(requests, "subprocess", SimpleNamespace(Popen=self._operate_detached, DEVNULL=None))
        self._set(supervisor, "_journal", lambda _: None)
        self._set(supervisor, "operate", self._one_writer(supervisor.operate))
        for quota in ("KEPT_PROMOTED", "KEPT_FAILED"):
            self._set(promote, quota, 1)  # a short history prunes too
        self._count_writes()
        self._has_reserve()

    def _count_writes(self) -> None:
        """Makes each write of the step log and each change of a file a moment at which anything may happen."""
        write = steplog.StepLog.write

        def logged(log: Any, event: str, **fields: Any) -> None:
            if fields.get("synced", True):
                self._host.crossing(f"before log {event} {fields.get('step', '')}")
            write(log, event, **fields)
            if fields.get("synced", True):
                self._host.crossing(f"after log {event} {fields.get('step', '')}")

        self._set(steplog.StepLog, "write", logged)
        self._set(steplog, "os", _Proxy("os", fsync=lambda _: self._room()))
        self._set(durable, "os", _Proxy("os", fsync=lambda _: None))
        for name in ("write", "link", "remove"):
            self._set(durable, name, self._counted(name, getattr(durable, name), needs_room=name != "remove"))
        for module in (promote, releases):
            proxied = _Proxy("os", replace=self._counted("replace", os.replace), fsync=lambda _: None)
            self._set(module, "os", proxied)
            self._set(module, "shutil", _Proxy("shutil", rmtree=self._counted("rmtree", shutil.rmtree)))

    def _counted(self, name: str, function: Any, *, needs_room: bool = False) -> Any:
        def counted(path: Any, *args: Any, **kwargs: Any) -> Any:
            what = f"{name} {Path(path).name}"
            self._host.crossing(f"before {what}")
            if needs_room and not str(path).startswith(str(self._host.root / "run")):
                self._room()
            result = function(path, *args, **kwargs)
            self._host.crossing(f"after {what}")
            return result

        return counted

    def _room(self, *_: Any) -> None:
        if self._host.disk_full and self._host.spare:
            self._host.spare -= 1
        elif self._host.disk_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def _has_reserve(self) -> None:
        """What is given of the room that is set aside is good for some writes; by then a stranger has taken it."""
        for name, size in (("BYTES", 16), ("INODES", 16), ("_SOME", 1), ("_FOR_POINTERS", 4), ("_FOR_STARTS", 8)):
            self._set(reserve, name, size)
        free = SimpleNamespace(f_frsize=1, f_files=0)
        disk = lambda _: SimpleNamespace(**vars(free), f_bavail=0 if self._host.disk_full else 2 * reserve.BYTES)  # noqa: E731
        give = reserve._give

        def given(files: list[Path]) -> bool:
            self._host.spare = self._host.writes_of_a_part if files else self._host.spare
            return give(files)

        def allocate(file: int, offset: int, size: int) -> None:
            self._room()
            os.posix_fallocate(file, offset, size)

        self._set(reserve, "os", _Proxy("os", posix_fallocate=allocate, statvfs=disk))
        self._set(reserve, "_give", given)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Gives the agent's modules back what was theirs."""
        for owner, name, value in reversed(self._undo):
            setattr(owner, name, value)

    def _open_process(self, pid: int) -> int | None:
        return next((p.ended for p in self._host.units.processes if pid and p.pid == pid), None)

    def _path(self, path: str) -> Path:
        """Stands for ``Path`` where a unit is adopted: what is in /proc is written when it is asked for."""
        if not path.startswith("/proc/"):
            return Path(path)
        process = self._host.root / path.lstrip("/")
        process.mkdir(parents=True, exist_ok=True)
        words = [
            f"{self._host.root}/engine/bin/python",
            "-m",
            "x",
            "--model-path",
            f"{self._host.root}/model",
            "--port",
            "8000",
        ]
        (process / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
        (process / "environ").write_bytes(b"A=b\0")
        return process

    def _operate_detached(self, *_: Any, **__: Any) -> None:
        self._host.detached += 1

    def _one_writer(self, operate: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if self._host.operating:
                self._host.invariants.wrong("two writers at once")
            self._host.operating = True
            try:
                return operate(*args, **kwargs)
            finally:
                self._host.operating = False

        return counted


class _Proxy:
    """A module with a few of its functions exchanged."""

    def __init__(self, name: str, **exchanged: Any) -> None:
        self._module: ModuleType = sys.modules[name]
        self.__dict__.update(exchanged)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Done:
    def __init__(self, value: Any, error: Exception | None) -> None:
        self._value, self._error = value, error

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> Any:
        if self._error:
            raise self._error
        return self._value


class _OneAfterAnother:
    """Stands for ``ThreadPoolExecutor``: what runs at once elsewhere has an order here."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> _OneAfterAnother:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Any, *args: Any, **kwargs: Any) -> _Done:
        try:
            return _Done(function(*args, **kwargs), None)
        except Exception as error:  # noqa: BLE001 - it is raised where the result is asked for
            return _Done(None, error)

    def map(self, function: Any, items: Any) -> Iterator[Any]:
        return iter([function(item) for item in items])
