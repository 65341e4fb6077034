"""The processes of a unit, read from its control group and from /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from .systemd import Unit

_SCHEDULER = b"sglang::scheduler"

# cgroup v2 alone; v1 with systemd's own hierarchy; both beside each other
_HIERARCHIES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup/systemd"))


def directories(cgroup: str) -> list[Path]:
    """Returns the directories of a control group in the hierarchies that hold processes."""
    if not cgroup:
        return []
    paths = [h / cgroup.lstrip("/") for h in _HIERARCHIES]
    return [p for p in paths if (p / "cgroup.procs").exists()]


def pids(cgroup: str) -> set[int]:
    """Returns the processes in a control group and in those below it."""
    found: set[int] = set()
    for top in directories(cgroup):
        for folder, _, _ in os.walk(top):
            with contextlib.suppress(OSError):
                found.update(int(p) for p in (Path(folder) / "cgroup.procs").read_text().split())
    return found


def of_invocation(invocation: str) -> set[int]:
    """Returns every process that a unit's invocation has brought forth, also those that left its control group.

    systemd gives a service its invocation in the environment, and children inherit that.
    """
    found = set()
    mark = f"INVOCATION_ID={invocation}".encode()
    for process in Path("/proc").glob("[0-9]*") if invocation else ():
        with contextlib.suppress(OSError):  # it has ended
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.add(int(process.name))
    return found


def schedulers(cgroup: str) -> frozenset[int]:
    """Returns the processes of a control group that are SGLang's schedulers, by the title that they give themselves.

    What a scheduler forks bears its title too, for a compiler's moment or for as long as a pool of workers lives.
    """
    parents = {}
    for pid in pids(cgroup):
        with contextlib.suppress(OSError):  # it has ended
            if _SCHEDULER in Path(f"/proc/{pid}/cmdline").read_bytes():
                parents[pid] = int(_state(pid)[1])
    return frozenset(pid for pid, parent in parents.items() if parent not in parents)


def in_kernel(pid: int) -> bool:
    """Says whether a process waits in the kernel, in state D, where no signal reaches it."""
    with contextlib.suppress(OSError):
        return _state(pid)[0] == "D"
    return False


def _state(pid: int) -> list[str]:
    """Returns a process's state, parent and what follows; see proc(5) on /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def kill(cgroup: str, within: float = 5.0) -> None:
    """Sends SIGKILL to a whole control group until it is empty or the time is over (seconds)."""
    end = time.monotonic() + within
    while True:
        for directory in directories(cgroup):
            with contextlib.suppress(OSError):
                (directory / "cgroup.kill").write_text("1")
        left = pids(cgroup)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not left or time.monotonic() > end:
            return
        time.sleep(0.01)


def open_process(pid: int) -> int | None:
    """Returns a descriptor that tells of the process's end, None where it has ended already (pid 0: there is none)."""
    try:
        return os.pidfd_open(pid) if pid else None
    except ProcessLookupError:
        return None


def bytes_read(cgroup: str) -> int:
    """Returns the bytes that a unit's processes have read so far, from the page cache too."""
    total = 0
    for pid in pids(cgroup):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))
    return total


def listener(port: int) -> set[int] | None:
    """Returns the socket inodes that listen on a TCP port, None where nobody does."""
    inodes: set[int] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(int(fields[9]))
    return inodes or None


def connections(port: int) -> int:
    """Returns how many established TCP connections a local port has."""
    count = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                count += fields[3] == "01" and int(fields[1].rpartition(":")[2], 16) == port
    return count


def holders(inodes: set[int], among: set[int] | None = None) -> set[int]:
    """Returns the processes that hold one of the sockets, looked for in ``among`` or everywhere."""
    names = {f"socket:[{inode}]" for inode in inodes}
    found: set[int] = set()
    for pid in among if among is not None else {int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()}:
        with contextlib.suppress(OSError):
            for descriptor in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor.path) in names:
                        found.add(pid)
                        break
    return found


def describe(pid: int) -> str:
    """Returns a process in one line for an error: pid, command, unit."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        group = Path(f"/proc/{pid}/cgroup").read_text().splitlines()[-1].rpartition("/")[2]
        state = ", in the kernel (state D)" if in_kernel(pid) else ""
        return f"pid {pid} ({command[:80]}) of {group}{state}"
    return f"pid {pid}"


def owners(port: int) -> str:
    """Returns in words who listens on a port."""
    found = sorted(holders(listener(port) or set()))
    return ", ".join(describe(pid) for pid in found) or "nobody that is visible"


def of_unit(unit: Unit, port: int) -> bool:
    """Says whether the port's listener belongs to the unit's control group."""
    inodes = listener(port)
    return bool(inodes) and bool(holders(inodes or set(), among=pids(unit.cgroup)))
