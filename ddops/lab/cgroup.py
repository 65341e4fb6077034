"""A host's control groups: one of the same name in every mounted hierarchy.

Works where cgroup v1 controllers stand beside a v2 tree (hybrid), and is written for
pure v2 as on an ordinary Debian 12: the groups are then children of the root group,
whose controllers are passed down. The pure v2 branch has not been run yet.

The keeper imports this: keep it free of costly imports, paths are plain strings.
"""

import errno
import os
import time

_ROOT = "/sys/fs/cgroup"


def hierarchies() -> list[str]:
    """Mount points of all hierarchies, v1 and v2."""
    return [mount for mount, _ in _mounts()]


def unified() -> str:
    """Mount point of the v2 tree, or an empty string where there is none."""
    return next((mount for mount, kind in _mounts() if kind == "cgroup2"), "")


def create(group: str, memory: str = "") -> list[str]:
    """Makes `group` (a relative path) in every hierarchy, with a memory limit such as 512M.

    Returns the folders; a process enters the group by its pid in each one's cgroup.procs.
    """
    made = []
    for folder in hierarchies():
        for part in group.split("/"):
            _pass_controllers_down(folder)
            parent, folder = folder, f"{folder}/{part}"
            os.makedirs(folder, exist_ok=True)
            _inherit_cpuset(parent, folder)
        if memory:
            for name in ("memory.limit_in_bytes", "memory.max"):
                if os.path.exists(f"{folder}/{name}"):
                    _write(f"{folder}/{name}", memory)
        made.append(folder)
    return made


def kill(group: str) -> None:
    """Kills every process of the group and its children at once, like a power cut."""
    switch = f"{unified()}/{group}/cgroup.kill"
    if os.path.exists(switch):
        _write(switch, "1")


def remove(group: str, seconds: float = 3.0) -> bool:
    """Removes the group from every hierarchy; false where processes outlast the wait."""
    deadline = time.monotonic() + seconds
    tops = [f"{mount}/{group}" for mount in hierarchies()]
    while True:
        left = [top for top in tops if not _remove_tree(top)]
        if not left:
            return True
        if time.monotonic() > deadline:
            return False
        # killed processes leave their group only when they have been reaped
        time.sleep(0.02)


def exists(group: str) -> bool:
    return any(os.path.isdir(f"{mount}/{group}") for mount in hierarchies())


def first_process(group: str) -> int:
    """The host's PID 1 as this machine numbers it, or 0 while the host is not running."""
    try:
        with open(f"{unified()}/{group}/payload/init.scope/cgroup.procs") as procs:
            return int(procs.readline() or 0)
    except OSError:
        return 0


def _mounts() -> list[tuple[str, str]]:
    found = []
    with open("/proc/self/mounts") as table:
        for line in table:
            _, mount, kind = line.split(" ", 3)[:3]
            if kind in ("cgroup", "cgroup2") and (mount == _ROOT or mount.startswith(_ROOT + "/")):
                found.append((mount, kind))
    return found


def _pass_controllers_down(folder: str) -> None:
    """v2: a child has a controller only where its parent passes it down."""
    try:
        with open(f"{folder}/cgroup.controllers") as file:
            controllers = file.read().split()
    except OSError:
        return  # a v1 hierarchy
    for controller in controllers:
        try:
            _write(f"{folder}/cgroup.subtree_control", f"+{controller}")
        except OSError as error:
            # busy: a container's own root with processes in it; the host runs without that limit
            if error.errno not in (errno.EBUSY, errno.EINVAL, errno.EOPNOTSUPP):
                raise


def _inherit_cpuset(parent: str, folder: str) -> None:
    """v1: a new cpuset is empty and takes no process."""
    if os.path.exists(f"{folder}/cgroup.controllers"):
        return
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not os.path.exists(f"{folder}/{name}"):
            continue
        with open(f"{folder}/{name}") as file:
            if file.read().strip():
                continue
        with open(f"{parent}/{name}") as file:
            _write(f"{folder}/{name}", file.read())


def _remove_tree(top: str) -> bool:
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
    return True


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
