"""The front: systemd's socket proxy on the public port, opened only to a release that has passed.

While the front is closed a file under /run makes systemd skip every start of it, so that nothing but
``open_to`` opens it; a reboot clears that file, and known-good's unit pulls the front in.
"""

from __future__ import annotations

import socket
import subprocess
import time

from . import durable, processes, reserve, systemd
from .errors import GateFailed
from .layout import UNITS, Layout
from .releases import Release
from .systemd import SystemdError

PARTS = ("front.socket", "front.service")


def install(layout: Layout, release: Release) -> None:
    """Puts the release's front units under /etc where they differ, and has systemd know them."""
    if not release.front:
        return
    units = [f"{layout.name}-{part}" for part in PARTS]
    changed = [systemd.install(unit, (release.directory / unit).read_bytes()) for unit in units]
    # written in an earlier life, which ended before systemd read it: then nothing differs any more
    if any(changed) or any(unit.needs_reload for unit in systemd.shown(*units)):
        systemd.daemon_reload()


def open_to(layout: Layout, release: Release, *, trial: bool) -> None:
    """Sends the public port to a release. A release without a front owns the public port itself."""
    if not release.front:
        durable.remove(layout.front_target_of_trial)  # of a trial that is gone
        return
    if trial:
        install(layout, release)
    else:
        reserve.with_room(layout, lambda: install(layout, release))
    port, target = int(release.front["port"]), _line(release)
    if _target(layout) == target and not layout.front_closed.exists() and state(layout, release) == "open":
        return
    if trial:
        durable.write(layout.front_target_of_trial, target.encode(), mode=0o644)
    else:
        keep_open_to(layout, release)
    # systemd does not start a socket whose service runs already
    systemd.systemctl("stop", layout.front_socket, layout.front_service, check=False)
    systemd.systemctl("reset-failed", layout.front_service, layout.front_socket, check=False)
    if processes.listener(port):
        raise GateFailed(
            f"the front cannot open: port {port} is taken",
            f"it is held by {processes.owners(port)}",
            "end that, then: ddops rollback",
        )
    durable.remove(layout.front_closed)
    units = (layout.front_socket, layout.front_service)  # a socket comes before its service
    if trial:
        systemd.systemctl("start", *units)
    else:
        reserve.start_with_room(layout, lambda: systemd.systemctl("start", *units))
    if not accepts(port):
        raise GateFailed("the front does not accept connections", f"port {port}")


def keep_open_to(layout: Layout, release: Release) -> None:
    """Makes a release the one that the front finds from now on, after a boot too.

    On a full disk it finds it until the next boot: the supervisor stores it when there is room.
    """
    try:
        store_target(layout, release)
    except OSError:
        durable.write(layout.front_target_of_trial, _line(release).encode(), mode=0o644)


def store_target(layout: Layout, release: Release) -> None:
    """As ``keep_open_to``, but a full disk raises OSError."""
    if not layout.front_target.exists() or layout.front_target.read_text() != _line(release):
        durable.write(layout.front_target, _line(release).encode(), mode=0o644)
    durable.remove(layout.front_target_of_trial)


def _line(release: Release) -> str:
    return f"DDOPS_TARGET={release.manifest['engine']['host']}:{release.port}\n"


def public_port(*of: Release | None) -> int | None:
    """Returns the port that the front of the first release that has one owns."""
    return next((int(r.front["port"]) for r in of if r and r.front), None)


def _target(layout: Layout) -> str | None:
    for path in (layout.front_target_of_trial, layout.front_target):
        if path.exists():
            return path.read_text()
    return None


def close(layout: Layout, port: int | None, drain_s: float) -> dict[str, object]:
    """Closes the public port at once and gives open streams ``drain_s`` seconds to end.

    Returns what happened; raises SystemdError where the port still accepts. Stopping the socket unit is
    not enough: the proxy holds the listening socket and goes on accepting until the kernel closes it.
    """
    durable.make_directory(layout.run, 0o711)
    layout.front_closed.touch()
    if port is None or not (UNITS / layout.front_socket).exists():
        return {"front": "none"}
    systemd.systemctl("stop", layout.front_socket, check=False)
    graceful = not _strangers(layout, port) and _close_listener(port)
    end = time.monotonic() + (drain_s if graceful else 0)
    while (left := processes.connections(port)) and time.monotonic() < end:
        time.sleep(0.05)
    systemd.systemctl("stop", layout.front_service, check=False)
    if accepts(port):
        who = _strangers(layout, port) or "nobody that is visible"
        raise SystemdError(f"port {port} still accepts connections after the front was closed", f"held by {who}")
    return {"front": "closed", "graceful": graceful, "streams_cut": left}


def _close_listener(port: int) -> bool:
    """Has the kernel close the port's listening socket; says whether it did, not every kernel can."""
    killed = subprocess.run(
        ["ss", "-K", "-ltnH", f"sport = :{port}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=10,
        check=False,
    )
    return killed.returncode == 0 and not accepts(port)


def _strangers(layout: Layout, port: int, proxy: systemd.Unit | None = None) -> str:
    """Returns who listens on the public port and is not the front, '' where nobody does."""
    own = {1, *processes.pids((proxy or systemd.show(layout.front_service)).cgroup)}
    others = processes.holders(processes.listener(port) or set()) - own
    return ", ".join(processes.describe(p) for p in sorted(others))


def accepts(port: int) -> bool:
    """Says whether the port accepts a connection: the only proof of open or closed."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
    except OSError:
        return False


def state(layout: Layout, release: Release | None, proxy: systemd.Unit | None = None) -> str:
    """Returns open, closed, taken by whom, or none (the release owns the public port itself).

    ``proxy`` is what systemd has told of the front's service just now, where it was asked.
    """
    if release is None or not release.front:
        return "none"
    port = int(release.front["port"])
    if who := _strangers(layout, port, proxy):
        return f"port {port} is taken by {who}"
    return "open" if accepts(port) else "closed"
