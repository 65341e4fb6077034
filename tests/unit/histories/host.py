"""A host in memory below the real agent: what its modules call outside of themselves leads here."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import json
import os
import shutil
import ssl  # noqa: F401 - the supervisor sees to it that nobody imports it later
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

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

from .engines import Answers, Behaviour, Process
from .journals import Lines
from .turns import Died, Idle, PowerCut, Turns
from .units import PUBLIC, Units

MODULES = [
    __main__, adopt, brakes, deploy, durable, engine, eye, front, guard, handmade, journal, layout, lock, notices,
    observe, operation, preflight, processes, promote, releases, requests, reserve, restore, rollback, service, soak,
    stack, status, sending, steplog, supervisor, systemd, wake, watch, acceptance, lossless, ready, smoke,
]  # fmt: skip
ADOPTED = "sglang.service"
_PORTS = 31000
_FRONT_UNIT = b"[Unit]\nDescription=front\n"


class Host:
    """One host, with the service ``lab``; everything on it is gone with ``close``."""

    def __init__(self) -> None:
        shm = Path("/dev/shm")  # noqa: S108 - memory: nothing here has to outlive the test
        self._folder = tempfile.TemporaryDirectory(prefix="dd", dir=shm if shm.is_dir() else None)
        self.root = Path(self._folder.name).resolve()
        self.etc, self.run_units = self.root / "etc", self.root / "run/systemd"
        for folder in (self.etc / "multi-user.target.wants", self.run_units, self.root / "var"):
            folder.mkdir(parents=True)
        self.layout = layout.layout_of("lab", self.root / "var", self.root / "run/ddops")
        self.turns = Turns()
        self.journal = Lines(self)
        self.units = Units(self)
        self.behaviours: dict[int, Behaviour] = {}
        self.boot = 1
        self.crossings = 0
        self.plans: list[tuple[int, Callable[[], None]]] = []
        self.disk_full = False
        self.spare = 0  # writes that a full disk still takes
        self.writes_of_a_part = 200
        self.violations: list[str] = []
        self.detached = 0
        self.operating = False
        self.deaths = self.cuts = 0
        self._asked = itertools.count(1)
        self._make_engine_folder()
        self._undo: list[tuple[Any, str, Any]] = []
        self._connect()

    # ---- where the agent meets the host

    def _connect(self) -> None:
        turns, units, readers = self.turns, self.units, journal.Journal
        for module in MODULES:
            known = vars(module)
            for name, value in (
                ("UNITS", self.etc),
                ("RUNTIME_UNITS", self.run_units),
                ("BOOT_WANTS", self.etc / "multi-user.target.wants"),
                ("LAB_MARK", self.root / "lab"),
            ):
                if name in known:
                    self._set(module, name, value)
            if known.get("time") is time:
                self._set(module, "time", turns)
            if "ThreadPoolExecutor" in known:
                self._set(module, "ThreadPoolExecutor", _OneAfterAnother)
            if known.get("Journal") is readers:
                self._set(module, "Journal", self.journal.open)
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
        answers = Answers(self)
        self._set(engine.Engine, "_ask", lambda e, *a: answers.ask(e, *a))
        self._set(engine.Engine, "stream", lambda e, *a: answers.stream(e, *a))
        self._set(steplog, "boot_id", lambda: f"boot-{self.boot}")
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
                self.crossing(f"before log {event} {fields.get('step', '')}")
            write(log, event, **fields)
            if fields.get("synced", True):
                self.crossing(f"after log {event} {fields.get('step', '')}")

        self._set(steplog.StepLog, "write", logged)
        self._set(steplog, "os", _Proxy("os", fsync=lambda _: self._room()))
        self._set(durable, "os", _Proxy("os", fsync=lambda _: None))
        for name in ("write", "link", "remove"):
            self._set(durable, name, self._counted(name, getattr(durable, name), needs_room=name != "remove"))
        for module in (promote, releases):
            proxied = _Proxy("os", replace=self._counted("replace", __import__("os").replace), fsync=lambda _: None)
            self._set(module, "os", proxied)
            self._set(module, "shutil", _Proxy("shutil", rmtree=self._counted("rmtree", shutil.rmtree)))

    def _counted(self, name: str, function: Any, *, needs_room: bool = False) -> Any:
        def counted(path: Any, *args: Any, **kwargs: Any) -> Any:
            what = f"{name} {Path(path).name}"
            self.crossing(f"before {what}")
            if needs_room and not str(path).startswith(str(self.root / "run")):
                self._room()
            result = function(path, *args, **kwargs)
            self.crossing(f"after {what}")
            return result

        return counted

    def _room(self, *_: Any) -> None:
        if self.disk_full and self.spare:
            self.spare -= 1
        elif self.disk_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def _has_reserve(self) -> None:
        """What is given of the room that is set aside is good for some writes; by then a stranger has taken it."""
        for name, size in (("BYTES", 16), ("INODES", 16), ("_SOME", 1), ("_FOR_POINTERS", 4), ("_FOR_STARTS", 8)):
            self._set(reserve, name, size)
        free = SimpleNamespace(f_frsize=1, f_files=0)
        disk = lambda _: SimpleNamespace(**vars(free), f_bavail=0 if self.disk_full else 2 * reserve.BYTES)  # noqa: E731
        give = reserve._give

        def given(files: list[Path]) -> bool:
            self.spare = self.writes_of_a_part if files else self.spare
            return give(files)

        def allocate(file: int, offset: int, size: int) -> None:
            self._room()
            os.posix_fallocate(file, offset, size)

        self._set(reserve, "os", _Proxy("os", posix_fallocate=allocate, statvfs=disk))
        self._set(reserve, "_give", given)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def close(self) -> None:
        self.turns.bury()
        for owner, name, value in reversed(self._undo):
            setattr(owner, name, value)
        for fd in [self.journal.never, *(p.ended for p in self.units.all)]:
            with contextlib.suppress(OSError):
                __import__("os").close(fd)
        self._folder.cleanup()

    def _open_process(self, pid: int) -> int | None:
        return next((p.ended for p in self.units.processes if pid and p.pid == pid), None)

    def _path(self, path: str) -> Path:
        """Stands for ``Path`` where a unit is adopted: what is in /proc is written when it is asked for."""
        if not path.startswith("/proc/"):
            return Path(path)
        process = self.root / path.lstrip("/")
        process.mkdir(parents=True, exist_ok=True)
        words = [f"{self.root}/engine/bin/python", "-m", "x", "--model-path", f"{self.root}/model", "--port", "8000"]
        (process / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
        (process / "environ").write_bytes(b"A=b\0")
        return process

    def _operate_detached(self, *_: Any, **__: Any) -> None:
        self.detached += 1

    def _one_writer(self, operate: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if self.operating:
                self.wrong("two writers at once")
            self.operating = True
            try:
                return operate(*args, **kwargs)
            finally:
                self.operating = False

        return counted

    # ---- moments

    def crossing(self, what: str) -> None:
        """A moment at which the supervisor may die, and others may act."""
        if self.turns.nested:
            return
        if self.turns.dead:
            raise self.turns.dead
        self.crossings += 1
        self.looks(what)
        while self.plans and self.plans[0][0] <= self.crossings:
            _, happen = self.plans.pop(0)
            self.turns.nested += 1
            try:
                happen()
            finally:
                self.turns.nested -= 1
        if self.turns.dead:
            raise self.turns.dead

    def looks(self, what: str) -> None:
        """What must hold at every moment."""
        running = {p.unit for p in self.units.processes}
        if len(running) > 1:
            self.wrong(f"two engines at once, {what}: {sorted(running)}")
        pointer = durable.read_json(self.layout.known_good)
        if pointer is None:
            return
        if not (self.layout.release_dir(pointer["release"]) / "manifest.json").exists():
            self.wrong(f"known-good {pointer['release']} is gone, {what}")
        boots = systemd.boots(self.layout)
        if boots is None or not (self.etc / boots).is_file():
            self.wrong(f"the alias boots {boots}, which is not there, {what}")

    def starts(self, process: Process) -> None:
        """An engine is started: a trial never in another boot than its own, unless it is what boots."""
        newest = max(self.layout.operations.glob("*.request.json"), default=None)
        asked = json.loads(newest.read_text()) if newest else {"kind": ""}
        trial = asked["kind"] == "deploy" and asked["release"] == process.release
        if trial and asked["boot_id"] != f"boot-{self.boot}" and self.boots() != process.unit:
            self.wrong(f"{process.unit} is tried again after a power cut")

    def front_opens(self, target: str) -> None:
        """The public port now leads to a release: only to one that has passed."""
        passed = self._passed()
        if target and int(target) - _PORTS not in passed:
            self.wrong(f"users are sent to {target}, passed have {sorted(passed)}")

    def _passed(self) -> set[int]:
        passed = {int((durable.read_json(self.layout.known_good) or {"release": 0})["release"])}
        newest = max(self.layout.operations.glob("*.request.json"), default=None)
        if newest:
            asked = json.loads(newest.read_text())
            steps = list(steplog.read(steplog.steps_file(self.layout, asked["operation"])))
            done = {e["step"] for e in steps if e["event"] == "step-done"}
            if asked["kind"] == "deploy" and {"ready", "smoke", "acceptance", "throughput"} <= done:
                passed.add(asked["release"])
            # what known-good was when the operation began
            passed |= {e["release"] for e in steps if e["event"] == "way-back" and e["release"] is not None}
            if asked["kind"] in ("rollback", "restart") and asked.get("to") is not None and "return" in done:
                passed.add(asked["to"])
        return passed

    def wrong(self, what: str) -> None:
        self.violations.append(what)

    def boots(self) -> str | None:
        return systemd.boots(self.layout)

    def kill_supervisor(self) -> None:
        self.turns.dead = Died()

    def cut_power(self) -> None:
        self.turns.dead = PowerCut()

    # ---- lives

    def live(self) -> None:
        """Lets supervisors live, one after another, until one has nothing more to do."""
        while True:
            try:
                if self.units.supervisor == "active":
                    supervisor.supervise(self.layout)
                elif self.detached:
                    self.detached = 0
                    __main__._operate(self.layout)
                return
            except Idle:
                return
            except PowerCut:
                self.cuts += 1
                self._restart()
            except Died:
                self.deaths += 1
                self.turns.bury()
            finally:
                self.turns.bury()

    def _restart(self) -> None:
        self.turns.bury()
        self.turns.forget()
        self.units.power_cut()
        for folder in (self.root / "run").iterdir():
            shutil.rmtree(folder)
        self.run_units.mkdir(parents=True)
        self.boot += 1
        self.disk_full = False
        self.turns.advance(20)
        self.units.boots()
        for process in self.units.processes:
            if process.release not in (passed := self._passed()):
                self.wrong(f"release {process.release} boots, passed have {sorted(passed)}")

    # ---- what an operator brings

    def _make_engine_folder(self) -> None:
        packages = self.root / "engine/lib/python3.11/site-packages"
        (packages / "sglang-0.5.16.dist-info").mkdir(parents=True)
        (packages / "sglang-0.5.16.dist-info/RECORD").write_text("sglang-0.5.16.dist-info/RECORD,,\n")
        (self.root / "engine/bin").mkdir()
        (self.root / "engine/bin/python").write_text("")
        (self.root / "model").mkdir()
        (self.root / "model/config.json").write_text("{}")

    def spec(self, policy: str = "page") -> dict[str, Any]:
        """Returns what manifests share."""
        questions = [
            {"prompt": f"The capital of {c}?", "expect": a} for c, a in (("France", "Paris"), ("Japan", "Tok"))
        ]
        return {
            "service": "lab", "profile": "lab", "overlay": "o" * 8,
            "gates": {
                "smoke": {"questions": questions, "concurrency": [1, 2], "max_tokens": 4},
                "lossless": {"prompts": ["a", "b"], "tokens": 6, "concurrency": 1, "tolerance": 0.01},
                "acceptance": {"prompts": ["1, 2"], "tokens": 40, "tolerance": 0.2, "min_accept_length": 1.05},
                "throughput": {"prompts": ["1, 2"], "tokens": 40, "repeats": 1, "tolerance": 0.5},
            },
            "deadlines": {"drain": 1, "stop": 3, "load_silence": 6, "load_cap": 20, "gates": 60, "answer": 5},
            "watch": {"on_fault": policy, "on_repeat": "page", "repeat_within": 600, "cap": 3, "ask_every": 15},
        }  # fmt: skip

    def start_by_hand(self) -> None:
        """Starts the unit that is to be adopted, enabled as somebody has made it."""
        (self.etc / ADOPTED).write_text(f"[Service]\nExecStart=/serve release 0 port {PUBLIC}\n")
        (self.etc / "multi-user.target.wants" / ADOPTED).symlink_to(self.etc / ADOPTED)
        systemd.systemctl("start", ADOPTED)
        self.turns.advance(5)

    def file(self, kind: str, by: str, **more: Any) -> int:
        return requests.file(self.layout, {"kind": kind, "by": by, **more})

    def install(self) -> None:
        requests.install_supervisor(self.layout, "[Service]\n", b"agent", {"command": None, "webhook_url_file": None})

    def stage(self, by: str, policy: str = "page") -> int:
        """Stages the next release; returns its number."""
        number = releases.next_number(self.layout)
        unit, port = f"lab-{number:04d}.service", _PORTS + number
        files = {
            unit: f"[Unit]\nDescription=release {number} port {port}\n".encode(),
            "lab-front.socket": _FRONT_UNIT, "lab-front.service": _FRONT_UNIT,
        }  # fmt: skip
        manifest = {
            **self.spec(policy), "release": number, "unit": unit, "budget": number, "graphs": False,
            "algorithm": "NGRAM", "by": by, "front": {"port": PUBLIC},
            "engine": {
                "host": "127.0.0.1", "port": port, "python": f"{self.root}/engine/bin/python",
                "model": f"{self.root}/model", "sglang": "0.5.16", "speculates": True,
            },
            "expect": {"server_info": {"budget": number}, "graphs": False, "overlay_ranks": 1},
            "hardware": {"arch": "cpu", "gpus": 0, "gpu_memory_mib": 0},
            "files": {name: sha256(data).hexdigest() for name, data in files.items()},
        }  # fmt: skip
        requests.stage(self.layout, _packed(files), json.dumps(manifest).encode(), None)
        return number


def _packed(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


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
