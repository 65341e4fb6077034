"""The lab as one object: what the CLI, the tests and a demo call."""

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ddops.lab import clients, deps, faults, inotify, inside, making, network, power, removing, rootfs
from ddops.lab.config import LabConfig
from ddops.lab.errors import LabError
from ddops.lab.host import Host, all_hosts
from ddops.lab.options import HostOptions


def ignore(_text: str) -> None:
    """A report that nobody reads."""


@dataclass(frozen=True)
class HostStatus:
    """A host as it is now; pid1 is 0 while it is not running."""

    name: str
    address: str
    state: str
    disk: str
    memory: str
    link: str
    pid1: int


@dataclass(frozen=True)
class Lab:
    """Everything raises LabError where it cannot do what it says; progress goes to `report`."""

    config: LabConfig
    report: Callable[[str], None] = ignore

    def build(self, force: bool = False) -> Path:
        """The shared root file system, built where it is missing or `force` is true."""
        _need_root()
        deps.install(self.report)
        return rootfs.build(self.config.cache, self.config.distribution, self.report, force)

    def up(self, *names: str, options: HostOptions | None = None, seconds: float = 90.0) -> list[HostStatus]:
        """Makes hosts and boots them until they serve ssh.

        A host that exists keeps what it was made with and is booted where it is off; one
        that is up is left alone.
        """
        tree = self.build()
        hosts = [Host(self.config, name) for name in names]
        with self._locked():
            network.ensure(self.config)
            inotify.raise_limit(self.config.tag)
            making.make_client_key(self.config)
            self.config.hosts.mkdir(exist_ok=True)
            for host in hosts:
                if host.exists:
                    self.report(f"{host.name} exists, and keeps its options")
                    power.start(host)
                else:
                    making.make_host(host, options or HostOptions(), tree)
                power.launch_keeper(host)
            clients.write(self.config)
        for host in hosts:
            power.await_ssh(host, seconds=seconds)
            self.report(f"{host.name} {host.spec.address} is up")
        return [status(host) for host in hosts]

    def down(self, *names: str, all: bool = False) -> list[str]:
        """Removes hosts, and with `all` every trace of the lab; returns the removed names.

        A name that is not there is no error.
        """
        _need_root()
        with self._locked():
            wanted = {Host(self.config, name).name for name in names}
            hosts = [host for host in everything(self.config) if all or host.name in wanted]
            removing.remove_hosts(hosts)
            if all:
                removing.remove_lab(self.config)
            clients.write(self.config)
        return [host.name for host in hosts]

    def hosts(self) -> list[HostStatus]:
        """The hosts and their states, in the order of their addresses."""
        return [status(host) for host in all_hosts(self.config)]

    def host(self, name: str) -> Host:
        """The host of that name; raises LabError where there is none."""
        host = Host(self.config, name)
        _ = host.spec
        return host

    def address(self, name: str) -> str:
        return self.host(name).spec.address

    def start(self, *names: str) -> None:
        """Powers on hosts that are off, and waits for ssh."""
        hosts = self._powered(names)
        boots = [host.boot - (host.state == "on") for host in hosts]
        for host in hosts:
            power.start(host)
        for host, boot in zip(hosts, boots, strict=True):
            power.await_ssh(host, after_boot=boot)

    def stop(self, *names: str) -> None:
        """Shuts hosts down cleanly, and waits until they are off."""
        self._each_off(names, power.shut_down)

    def crash(self, *names: str) -> None:
        """Cuts the hosts' power; the disk stays."""
        self._each_off(names, power.cut_power)

    def reboot(self, *names: str) -> None:
        """Reboots from inside, and waits until the next boot serves ssh."""
        hosts = self._powered(names)
        boots = [host.boot for host in hosts]
        for host in hosts:
            self.exec(host.name, "systemctl", "reboot")
        for host, boot in zip(hosts, boots, strict=True):
            power.await_ssh(host, after_boot=boot)

    def cut(self, name: str) -> None:
        """Pulls the network cable."""
        with self._locked():
            faults.cut(self.host(name))

    def blackhole(self, name: str) -> None:
        """Loses every packet while the link stays up."""
        with self._locked():
            faults.blackhole(self.host(name))

    def rate(self, name: str, rate: str) -> None:
        """Limits the traffic to the host, such as 1mbit."""
        with self._locked():
            faults.rate(self.host(name), rate)

    def delay(self, name: str, milliseconds: float, loss: float = 0.0) -> None:
        """Delays packets each way, and loses `loss` percent of them."""
        with self._locked():
            faults.delay(self.host(name), milliseconds, loss)

    def heal(self, name: str) -> None:
        """Undoes cut, blackhole, rate and delay."""
        with self._locked():
            faults.heal(self.host(name))

    def ssh(self, name: str, *args: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Runs `ssh HOST ARGS...`; the caller judges the exit status."""
        return _captured(inside.ssh_command(self.host(name), *args), seconds)

    def exec(self, name: str, *args: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Runs a command in the host without network; the caller judges the exit status."""
        return _captured(inside.exec_command(self.host(name), *args), seconds)

    def _powered(self, names: tuple[str, ...]) -> list[Host]:
        _need_root()
        hosts = [self.host(name) for name in names]
        for host in hosts:
            if host.state == "dead":
                raise LabError(f"{host.name} is dead", "its keeper is gone", f"ddops lab up {host.name}")
        return hosts

    def _each_off(self, names: tuple[str, ...], switch: Callable[[Host], None]) -> None:
        hosts = self._powered(names)
        for host in hosts:
            switch(host)
        for host in hosts:
            power.await_off(host)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One change of the lab at a time."""
        _need_root()
        try:
            self.config.state.mkdir(parents=True, exist_ok=True)
            lock = (self.config.state / "lock").open("w")
        except OSError as error:
            why = error.strerror or str(error)
            raise LabError(f"cannot write to {self.config.state}", why, "DDOPS_LAB_DIR names another folder") from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def status(host: Host) -> HostStatus:
    spec = host.spec
    disk = f"{spec.disk_kind}:{spec.disk_size}"
    return HostStatus(host.name, spec.address, host.state, disk, spec.memory, spec.link, host.pid1)


def everything(config: LabConfig) -> list[Host]:
    """The lab's hosts, with those that have only a folder left."""
    if not config.hosts.exists():
        return []
    return [Host(config, entry.name) for entry in config.hosts.iterdir() if not entry.name.startswith(".")]


def _captured(argv: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)


def _need_root() -> None:
    if os.geteuid():
        raise LabError("the lab needs root", "it mounts file systems and makes namespaces", "use sudo")
