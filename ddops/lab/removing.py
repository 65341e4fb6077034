"""Takes hosts away with all they left, also after a crash half-way."""

import shutil
import signal

from ddops.lab import cgroup, faults, inotify, network
from ddops.lab.config import LabConfig
from ddops.lab.errors import LabError
from ddops.lab.host import KEEPER, Host, processes, send
from ddops.lab.waiting import until


def remove_hosts(hosts: list[Host], seconds: float = 20.0) -> None:
    """Ends the hosts' processes and deletes their state, whole or torn.

    Raises LabError where a process outlasts SIGKILL.
    """
    for host in hosts:
        faults.stop_relay(host)
        for pid in processes(KEEPER, host.folder):
            send(pid, KEEPER, host.folder, signal.SIGTERM)
    for host in hosts:
        _await_end(host, seconds)
        group = f"{host.config.cgroup}/{host.name}"
        cgroup.kill(group)
        if not cgroup.remove(group):
            raise LabError(f"{host.name} is not gone", "its processes outlast SIGKILL", "ddops lab down --all")
        if host.exists:
            # the kernel removes it with the host's namespace, but in its own time
            network.ip(host.config, "link", "del", host.spec.link, check=False)
        shutil.rmtree(host.folder, ignore_errors=True)


def _await_end(host: Host, seconds: float) -> None:
    def ended() -> bool:
        return not processes(KEEPER, host.folder)

    if until(ended, seconds):
        return
    for pid in processes(KEEPER, host.folder):
        send(pid, KEEPER, host.folder, signal.SIGKILL)
    until(ended, 5.0)


def remove_lab(config: LabConfig) -> None:
    """Removes what all hosts shared: groups, bridge, route, limits. The client key stays."""
    for half_made in config.hosts.glob(".new-*"):
        shutil.rmtree(half_made)
    cgroup.remove(config.cgroup)
    network.drop(config)
    inotify.restore_limit(config.tag)
    if config.hosts.exists():
        config.hosts.rmdir()
