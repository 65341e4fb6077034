"""What the matrix does to a host in the middle of an operation, whose supervisor is held still meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.lab.service_host import ServiceHost

_LOSS_PERCENT, _DELAY_MS = 5, 100
_INODES = "mkdir -p /var/many; cd /var/many; seq -f $$-%.0f $(($(stat -f -c %d .) + 50)) | xargs touch 2>&1 | tail -1"


def _nothing(_: ServiceHost) -> None:
    pass


@dataclass(frozen=True)
class Disturbance:
    """``strike`` does it and ``undo`` takes it back, once the host has come to rest with it."""

    strike: Callable[[ServiceHost], object]
    undo: Callable[[ServiceHost], None] = _nothing
    lasts_s: float = 0  # at least
    patience: str = "2m"  # of the client
    gives_up: bool = False  # the client, since the host stays away longer than that
    disk: bool = False
    network: bool = False


def _kill_client(host: ServiceHost) -> None:
    host.clients[-1].send_signal(signal.SIGKILL)


def _kill_supervisor(host: ServiceHost) -> None:
    host.on("systemctl", "kill", "-s", "KILL", "ddops-supervisor@lab.service")


def _cut_power(host: ServiceHost) -> None:
    host.lab.crash(host.name)
    host.lab.start(host.name)


def _heal(host: ServiceHost) -> None:
    host.lab.heal(host.name)


def _fill(host: ServiceHost) -> None:
    """Takes all bytes, and goes on: journald makes room by removing its oldest files, an engine by its end."""
    small = "n=0; while echo > /var/fill/$$-$n; do n=$((n + 1)); done"  # what one large file leaves
    take = f"cat /dev/zero >> /var/fill/large; sync; {small}"
    host.on("sh", "-c", f"mkdir -p /var/fill; {take}; true")
    host.on("systemd-run", "--unit=filler", "sh", "-c", f"while sleep 0.1; do {take}; done")


def _clear(host: ServiceHost, path: str) -> None:
    host.on("sh", "-c", f"systemctl stop filler 2>/dev/null; rm -r {path}")


ALL = {
    "client killed": Disturbance(_kill_client),
    "supervisor killed": Disturbance(_kill_supervisor),
    "power cut": Disturbance(_cut_power),
    # the client takes a host for lost after five silent seconds
    "link down": Disturbance(lambda host: host.lab.cut(host.name), _heal, lasts_s=8, network=True),
    "black hole": Disturbance(
        lambda host: host.lab.blackhole(host.name), _heal, patience="1s", gives_up=True, network=True
    ),
    "delay and loss": Disturbance(
        lambda host: host.lab.delay(host.name, _DELAY_MS, _LOSS_PERCENT), _heal, network=True
    ),
    "disk without bytes": Disturbance(_fill, lambda host: _clear(host, "/var/fill"), disk=True),
    "disk without inodes": Disturbance(
        lambda host: host.on("sh", "-c", _INODES), lambda host: _clear(host, "/var/many"), disk=True
    ),
}
