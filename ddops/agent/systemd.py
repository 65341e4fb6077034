"""systemd, asked and told. Every call has a time-out of its own."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import durable
from .errors import AgentError, Refused
from .layout import BOOT_WANTS, RUNTIME_UNITS, UNITS, Layout


class SystemdError(AgentError):
    code = "systemd"


def systemctl(*arguments: str, timeout: float = 90.0, check: bool = True) -> str:
    """Runs systemctl; returns its output, raises SystemdError where it fails or does not end in time."""
    try:
        done = subprocess.run(
            ["systemctl", "--no-ask-password", "--no-pager", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={k: v for k, v in os.environ.items() if k != "NOTIFY_SOCKET"},
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SystemdError(f"systemctl {' '.join(arguments)} did not end in {timeout:g} s") from None
    if check and done.returncode:
        raise SystemdError(f"systemctl {' '.join(arguments)} failed", done.stdout.strip())
    return done.stdout


def must_run() -> None:
    """Raises Refused where systemd is not PID 1: then nothing here could be done or known."""
    if not Path("/run/systemd/system").is_dir():
        pid_1 = Path("/proc/1/comm").read_text().strip()
        raise Refused(
            "systemd does not run on this host", f"PID 1 is {pid_1}", "name a host, not a container without systemd"
        )


@dataclass(frozen=True)
class Unit:
    """What systemd knows of a unit at one moment."""

    name: str
    load: str
    active: str
    result: str
    main_pid: int
    invocation: str
    cgroup: str
    fragment: str
    needs_reload: bool
    exit_code: str
    exit_status: str
    drop_ins: tuple[str, ...]

    @property
    def running(self) -> bool:
        return self.active in ("active", "activating", "deactivating", "reloading")


def properties(unit: str, *names: str) -> dict[str, str]:
    """Returns what systemd says of a unit; a property of several lines has them all, one it does not know is absent."""
    return _values(systemctl("show", unit, f"--property={','.join(names)}"))


def must_not_be_masked(*units: Unit) -> None:
    """Raises Refused where an operator has masked one of the units."""
    for unit in units:
        if unit.load == "masked":
            raise Refused(f"{unit.name} is masked", "somebody does not want it to run", f"systemctl unmask {unit.name}")


_EXIT_CODES = {"1": "exited", "2": "killed", "3": "dumped"}


def show(unit: str) -> Unit:
    """Returns the state of a unit; one that does not exist has load 'not-found'."""
    return shown(unit)[0]


def shown(*units: str) -> list[Unit]:
    """Returns the states of units, in their order: all by one process, which costs more than what it asks.

    Raises SystemdError where systemd does not tell of each.
    """
    names = (
        "LoadState,ActiveState,Result,MainPID,InvocationID,ControlGroup,FragmentPath,"
        "NeedDaemonReload,ExecMainCode,ExecMainStatus,DropInPaths"
    )
    told = systemctl("show", *units, f"--property={names}").strip().split("\n\n")
    if len(told) != len(units):
        raise SystemdError(f"systemd tells of {len(told)} units, it was asked for {', '.join(units)}")
    return [_unit(name, text) for name, text in zip(units, told)]


def _values(told: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in told.splitlines():
        name, mark, value = line.partition("=")
        if mark:
            found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


def _unit(name: str, told: str) -> Unit:
    values = _values(told)
    return Unit(
        name=name,
        load=values.get("LoadState", ""),
        active=values.get("ActiveState", ""),
        result=values.get("Result", ""),
        main_pid=int(values.get("MainPID") or 0),
        invocation=values.get("InvocationID", ""),
        cgroup=values.get("ControlGroup", ""),
        fragment=values.get("FragmentPath", ""),
        needs_reload=values.get("NeedDaemonReload") == "yes",
        exit_code=_EXIT_CODES.get(values.get("ExecMainCode", ""), values.get("ExecMainCode", "")),
        exit_status=values.get("ExecMainStatus", ""),
        drop_ins=tuple(values.get("DropInPaths", "").split()),
    )


def sha256(path: str) -> str:
    """Returns the hash of a file that a unit is made of, '' where it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def start(unit: str) -> None:
    """Asks for the start of a unit after clearing what an earlier failure left; does not wait for it."""
    systemctl("reset-failed", unit, check=False)
    systemctl("start", "--no-block", unit)


def daemon_reload() -> None:
    systemctl("daemon-reload")


def link_for_trial(unit: str, text: Path) -> None:
    """Makes a unit known until the next boot; never enabled."""
    RUNTIME_UNITS.mkdir(parents=True, exist_ok=True)
    path = RUNTIME_UNITS / unit
    if not path.is_symlink() or os.readlink(path) != str(text):
        durable.link(path, str(text))


def unlink_trial(unit: str) -> None:
    durable.remove(RUNTIME_UNITS / unit)


def install(name: str, text: bytes) -> bool:
    """Puts a unit file under /etc; returns whether anything changed."""
    path = UNITS / name
    if path.is_file() and not path.is_symlink() and path.read_bytes() == text:
        return False
    if path.is_symlink():
        raise SystemdError(f"{path} is a symbolic link", f"to {os.readlink(path)}", f"systemctl unmask {name}")
    durable.write(path, text, mode=0o644)
    return True


def boots(layout: Layout) -> str | None:
    """Returns the unit that the next boot starts for this service."""
    alias = UNITS / layout.alias
    return os.readlink(alias).rpartition("/")[2] if alias.is_symlink() else None


def make_boot(layout: Layout, unit: str) -> None:
    """Makes ``unit`` the one that boots: one rename(2) of the alias, synced. Repeatable."""
    if boots(layout) != unit:
        durable.link(UNITS / layout.alias, unit if (UNITS / unit).exists() else show(unit).fragment)
    BOOT_WANTS.mkdir(exist_ok=True)
    wanted = BOOT_WANTS / layout.alias
    if not wanted.is_symlink():
        durable.link(wanted, str(UNITS / layout.alias))


def forget_alias(layout: Layout) -> None:
    """Has systemd forget an alias whose unit somebody removed: it keeps such a name as a unit of its own, a dead one.

    Where the name becomes a running unit's at the next reload, systemd 252 may take that one for dead as well, and
    aborts as PID 1 when its process ends.
    """
    durable.remove(BOOT_WANTS / layout.alias)
    daemon_reload()


def boot_nothing(layout: Layout) -> None:
    """Takes the alias away: the next boot starts no release of this service."""
    durable.remove(BOOT_WANTS / layout.alias)
    durable.remove(UNITS / layout.alias)


def notify(message: str) -> None:
    """Tells the service manager something (sd_notify); silent where there is none."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect("\0" + address[1:] if address.startswith("@") else address)
        sock.sendall(message.encode())
