"""One host of a lab as its files and processes show it; nothing here changes the host."""

import json
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from ddops.lab import cgroup, spec
from ddops.lab.config import LabConfig
from ddops.lab.errors import LabError

KEEPER = "ddops.lab.keeper"
RELAY = "ddops.lab.relay"


@dataclass(frozen=True)
class Host:
    config: LabConfig
    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", self.name):
            raise LabError(
                f"not a host's name: {self.name!r}",
                "a letter, then letters, digits and -, up to 31, all lower case",
                "choose another name",
            )

    @property
    def folder(self) -> Path:
        return self.config.hosts / self.name

    @property
    def exists(self) -> bool:
        return (self.folder / "spec.json").exists()

    @property
    def spec(self) -> spec.HostSpec:
        """Raises LabError where there is no such host."""
        try:
            return spec.load(str(self.folder))
        except FileNotFoundError:
            raise LabError(
                f"no lab host {self.name!r}", f"none in {self.config.state}", f"ddops lab up {self.name}"
            ) from None

    @property
    def keeper(self) -> int:
        """Pid of the live keeper, or 0."""
        return checked_pid(self.folder / "keeper.pid", KEEPER, self.folder)

    @property
    def state(self) -> str:
        """on, off, rebooting, booting (the keeper is not ready yet) or dead (no keeper)."""
        return str(self._run()["state"]) if self.keeper else "dead"

    @property
    def boot(self) -> int:
        """How often the host has booted since its keeper started."""
        return int(self._run()["boot"])

    def _run(self) -> dict[str, str | int]:
        try:
            run: dict[str, str | int] = json.loads((self.folder / "run.json").read_text())
        except FileNotFoundError:
            return {"state": "booting", "boot": 0}
        return run

    @property
    def pid1(self) -> int:
        """The host's PID 1 as this machine numbers it, or 0."""
        return cgroup.first_process(self.spec.cgroup)

    def listens(self, port: int = 22) -> bool:
        """Whether a process of the host listens on a TCP port (IPv4).

        Read from the kernel's table: a connection would put an error in the host's journal.
        """
        try:
            rows = Path(f"/proc/{self.keeper}/net/tcp").read_text().splitlines()[1:]
        except OSError:
            return False
        fields = (row.split() for row in rows)
        return any(f[3] == "0A" and f[1].endswith(f":{port:04X}") for f in fields)

    def send(self, number: signal.Signals) -> bool:
        """Signals the keeper, and no other process; false where it is gone."""
        return send(self.keeper, KEEPER, self.folder, number)


def all_hosts(config: LabConfig) -> list[Host]:
    """The lab's hosts in the order of their addresses."""
    if not config.hosts.exists():
        return []
    names = [entry.name for entry in config.hosts.iterdir() if not entry.name.startswith(".")]
    hosts = [Host(config, name) for name in names]
    return sorted((host for host in hosts if host.exists), key=lambda host: host.spec.index)


def checked_pid(file: Path, module: str, folder: Path) -> int:
    """The pid in `file` where that process runs `module` for `folder`; else 0."""
    try:
        pid = int(file.read_text())
    except (FileNotFoundError, ValueError):
        return 0
    return pid if runs(pid, module, folder) else 0


def processes(module: str, folder: Path) -> list[int]:
    """All processes that run `module` for `folder`, also where no file tells of them."""
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdecimal())
    return [pid for pid in pids if runs(pid, module, folder)]


def send(pid: int, module: str, folder: Path, number: signal.Signals) -> bool:
    """Signals `pid` only if it runs `module` for `folder`; false where it does not."""
    if not pid:
        return False
    try:
        # the handle first: then the number cannot pass to another process after the check
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not runs(pid, module, folder):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def runs(pid: int, module: str, folder: Path) -> bool:
    """Whether a process was started as `module` for `folder`."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return module.encode() in words and str(folder).encode() in words
