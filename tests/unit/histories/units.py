"""systemd in memory, as far as the agent speaks to it: unit files on disk, units in memory, processes, the front."""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddops.agent.systemd import SystemdError

from .engines import Behaviour, Process, life

if TYPE_CHECKING:
    from .host import Host

SUPERVISOR = "ddops-supervisor@lab.service"
SOCKET, PROXY = "lab-front.socket", "lab-front.service"
PUBLIC = 8000
_CODES = {"exited": "1", "killed": "2", "": "0"}


@dataclass
class Loaded:
    """A unit in systemd's memory, with the text that it was loaded from."""

    text: str
    fragment: str
    mark: tuple[int, int]
    active: str = "inactive"
    result: str = "success"
    main_pid: int = 0
    invocation: str = ""
    code: str = ""
    status: str = "0"


class Units:
    """What ``systemctl`` and ``/proc`` would say, and what they do."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ids = itertools.count(1)
        self.memory: dict[str, Loaded] = {}
        self.processes: list[Process] = []  # those that are there, also a stuck one whose unit has failed
        self.all: list[Process] = []
        self.starts: list[tuple[int, Process]] = []
        self.supervisor = "active"
        self.socket_active = self.listening_socket = False
        self.proxy_pid = 0
        self.proxy_target = ""
        self.stranger: int | None = None  # a port that a process of nobody holds

    # ---- files

    def _file(self, name: str) -> Path | None:
        """Returns what systemd would read: /etc before /run, an alias or a link followed."""
        for folder in (self._host.etc, self._host.run_units):
            path = folder / name
            if path.is_symlink() or path.exists():
                return path
        return None

    def load_state(self, name: str) -> tuple[str, Path | None]:
        path = self._file(name)
        if path is None:
            return "not-found", None
        real = path.resolve()
        if str(real) == "/dev/null":
            return "masked", path
        return ("loaded", real) if real.is_file() else ("not-found", None)

    def resolved(self, name: str) -> str:
        """Returns the unit's own name: an alias is another's."""
        path = self.load_state(name)[1]
        return path.name if path and path.is_file() and path.parent == self._host.etc else name

    def _read(self, name: str) -> Loaded | None:
        state, path = self.load_state(name)
        return Loaded(path.read_text(), str(path), _mark(path)) if state == "loaded" and path else None

    def _stale(self, unit: Loaded) -> bool:
        path = Path(unit.fragment)
        return not path.exists() or _mark(path) != unit.mark

    def _forget(self, name: str) -> None:
        """systemd keeps a unit that rests only where another one refers to it."""
        unit = self.memory.get(name)
        if unit and unit.active == "inactive" and self.resolved("lab.service") != name:
            del self.memory[name]

    # ---- systemctl

    def systemctl(self, *arguments: str, timeout: float = 90.0, check: bool = True) -> str:
        words = [a for a in arguments if a != "--no-block"]
        verb, rest = words[0], words[1:]
        if verb == "show":
            self._host.turns.hand_over()
            return "\n".join(self._show(name) for name in rest if not name.startswith("--"))
        if verb == "list-units":
            pattern = rest[-1]
            return "".join(f"{n} {u.active}\n" for n, u in sorted(self.memory.items()) if fnmatch.fnmatch(n, pattern))
        self._host.crossing(f"before systemctl {verb} {' '.join(rest)}")
        self._host.turns.advance(0.02)
        try:
            getattr(self, "_" + verb.replace("-", "_"))(*rest, wait="--no-block" not in arguments)
        except SystemdError:
            if check:
                raise
        self._host.crossing(f"after systemctl {verb} {' '.join(rest)}")
        self._host.turns.hand_over()
        return ""

    def _show(self, name: str) -> str:
        values = {"LoadState": "loaded", "ActiveState": "inactive", "Result": "success", "MainPID": "0"}
        if name == SUPERVISOR:
            values["ActiveState"] = self.supervisor
        elif name == SOCKET:
            values["LoadState"] = self.load_state(name)[0]
            values["ActiveState"] = "active" if self.socket_active else "inactive"
        elif name == PROXY:
            values.update(LoadState=self.load_state(name)[0], ControlGroup="/front" if self.proxy_pid else "")
            values["ActiveState"] = "active" if self.proxy_pid else "inactive"
        else:
            name = self.resolved(name)
            state = self.load_state(name)[0]
            unit = self.memory.get(name) or self._read(name)
            values["LoadState"] = "masked" if state == "masked" else "loaded" if unit else "not-found"
            if unit:
                values.update(
                    ActiveState=unit.active, Result=unit.result, MainPID=str(unit.main_pid),
                    InvocationID=unit.invocation, FragmentPath=unit.fragment, ExecMainStatus=unit.status,
                    ExecMainCode=_CODES[unit.code], NeedDaemonReload="yes" if self._stale(unit) else "no",
                    ControlGroup=f"/{name}" if unit.active != "inactive" else "",
                )  # fmt: skip
        return "".join(f"{key}={value}\n" for key, value in values.items())

    def _daemon_reload(self, *, wait: bool) -> None:
        for name, unit in list(self.memory.items()):
            if fresh := self._read(name):
                unit.text, unit.fragment, unit.mark = fresh.text, fresh.fragment, fresh.mark
            elif unit.active in ("inactive", "failed"):
                del self.memory[name]

    def _reset_failed(self, *names: str, wait: bool) -> None:
        for name in names:
            unit = self.memory.get(self.resolved(name))
            if unit and unit.active == "failed":
                unit.active, unit.result = "inactive", "success"
                self._forget(self.resolved(name))

    def _restart(self, name: str, *, wait: bool) -> None:
        self._start(name, wait=wait)

    def _start(self, *names: str, wait: bool) -> None:
        for name in names:
            self._start_one(name)

    def _start_one(self, name: str) -> None:
        if name == SUPERVISOR:
            if self.supervisor != "failed":
                self.supervisor = "active"
        elif name == SOCKET:
            self._start_socket()
        elif name == PROXY:
            self._start_proxy()
        else:
            self._start_engine(self.resolved(name))

    def _stop(self, *names: str, wait: bool) -> None:
        for name in names:
            if name == SOCKET:
                self.socket_active = False
                self.listening_socket = self.listening_socket and bool(self.proxy_pid)
            elif name == PROXY:
                self.proxy_pid = 0
                self.listening_socket = self.socket_active  # what the proxy held goes with it
            else:
                self._stop_engine(self.resolved(name))
                while wait and self._running(self.resolved(name)):
                    self._host.turns.advance(0.05)

    # ---- engines

    def _running(self, name: str) -> bool:
        unit = self.memory.get(name)
        return unit is not None and unit.active in ("active", "deactivating")

    def _start_engine(self, name: str) -> None:
        state = self.load_state(name)[0]
        unit = self.memory.get(name) or self._read(name)
        if unit is None or state == "masked":
            raise SystemdError(f"systemctl start {name} failed", f"Unit {name} is {state}.")
        if unit.active in ("active", "deactivating"):
            return
        number, port = (int(found) for found in re.findall(r"release (\d+) port (\d+)", unit.text)[0])
        others = [p for p in self.processes if p.unit != name or p.behaviour.stuck_s]
        if others:
            self._host.invariants.wrong(f"{name} is started while {others[0].unit} is not gone")
        self.memory[name] = unit
        process = Process(
            name, number, port, 1000 + next(self._ids), f"{next(self._ids):032x}",
            self._host.behaviours.setdefault(number, Behaviour()),
        )  # fmt: skip
        unit.active, unit.result, unit.main_pid, unit.code = "active", "success", process.pid, ""
        unit.invocation = process.invocation
        self.processes.append(process)
        self.all.append(process)
        self.starts.append((self._host.boot, process))
        self._host.invariants.starts(process)
        if (self._host.etc / f"{name}.wants" / SOCKET).is_symlink() and not self.socket_active and not self.proxy_pid:
            self._start_socket()
        life(self._host, process)

    def _stop_engine(self, name: str) -> None:
        unit = self.memory.get(name)
        if unit is None or unit.active != "active":
            return
        unit.active = "deactivating"
        process = next(p for p in self.processes if p.pid == unit.main_pid)
        self._host.turns.at(process.behaviour.stop_s, lambda: self.ends(process, "exited", "0"))

    def lives(self, process: Process) -> bool:
        """Says whether a process's main process is there."""
        unit = self.memory.get(process.unit)
        return process in self.processes and unit is not None and unit.main_pid == process.pid

    def ends(self, process: Process, code: str, status: str) -> None:
        """Ends a process; its unit rests when its control group is empty."""
        if not self.lives(process):
            return
        unit = self.memory[process.unit]
        unit.main_pid, unit.code, unit.status = 0, code, status
        os.eventfd_write(process.ended, 1)
        process.healthy = False
        if process.behaviour.stuck_s:
            unit.active = "deactivating"
            self._host.turns.at(process.behaviour.stuck_s, lambda: self._gone(process, code, status))
        else:
            self._gone(process, code, status)

    def _gone(self, process: Process, code: str, status: str) -> None:
        self.processes.remove(process)
        unit = self.memory[process.unit]
        good = code == "exited" and status == "0"
        unit.active, unit.result = ("inactive", "success") if good else ("failed", "signal")
        self._forget(process.unit)

    def kill(self, cgroup: str, within: float = 5.0) -> None:
        """Stands for ``processes.kill``."""
        self._host.crossing(f"before kill {cgroup}")
        for process in [p for p in self.processes if f"/{p.unit}" == cgroup]:
            self.ends(process, "killed", "9")
            if process in self.processes:
                self._host.turns.advance(within)
        self._host.crossing(f"after kill {cgroup}")

    def pids(self, cgroup: str) -> set[int]:
        if cgroup == "/front":
            return {self.proxy_pid} - {0}
        return {p.pid for p in self.processes if f"/{p.unit}" == cgroup}

    # ---- ports: an inode is the port itself

    def listening(self, port: int) -> Process | None:
        return next((p for p in self.processes if p.port == port and p.healthy), None)

    def listener(self, port: int) -> set[int] | None:
        if port == self.stranger or (port == PUBLIC and self.listening_socket):
            return {port}
        stuck = next((p for p in self.processes if p.port == port and (p.healthy or not self.lives(p))), None)
        return {port} if stuck else None

    def holders(self, inodes: set[int], among: set[int] | None = None) -> set[int]:
        found = {p.pid for p in self.processes if p.port in inodes}
        if PUBLIC in inodes and self.listening_socket:
            found |= {1} if self.socket_active else set()
            found |= {self.proxy_pid} - {0}
        if self.stranger in inodes:
            found.add(77)
        return found if among is None else found & among

    def accepts(self, port: int) -> bool:
        """Stands for ``front.accepts``: a connection to the socket starts the proxy."""
        if port == PUBLIC and self.listening_socket and not self.proxy_pid:
            self._start_proxy()
        return self.listener(port) is not None

    def close_listener(self, *_: object, **__: object) -> object:
        """Stands for ``ss -K`` on the public port."""
        self._host.crossing("before ss -K")
        self.listening_socket = False
        return type("Done", (), {"returncode": 0})

    # ---- the front

    def _closed(self) -> bool:
        return (self._host.layout.front_closed).exists()

    def _start_socket(self) -> None:
        if self._closed() or self.load_state(SOCKET)[0] != "loaded" or self.socket_active:
            return
        if self.proxy_pid or self.listener(PUBLIC):
            raise SystemdError(f"systemctl start {SOCKET} failed", "Address already in use")
        self.socket_active = self.listening_socket = True
        self._host.invariants.front_opens(self._target())

    def _start_proxy(self) -> None:
        if self._closed() or not self.socket_active or self.proxy_pid:
            return
        self.proxy_pid, self.proxy_target = 500 + next(self._ids), self._target()
        self._host.invariants.front_opens(self.proxy_target)

    def _target(self) -> str:
        layout = self._host.layout
        for path in (layout.front_target_of_trial, layout.front_target):
            if path.exists():
                return path.read_text().strip().rpartition(":")[2]
        return ""

    # ---- power

    def power_cut(self) -> None:
        for process in self.processes:
            process.healthy = False
        self.memory.clear()
        self.processes.clear()
        self.socket_active = self.listening_socket = False
        self.proxy_pid, self.stranger = 0, None

    def boots(self) -> None:
        """Starts what /etc wants."""
        for link in sorted((self._host.etc / "multi-user.target.wants").glob("*.service")):
            if not link.name.startswith("ddops-supervisor"):
                self._start_engine(self.resolved(link.name))


def _mark(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_ino
