"""The lab's bridge, and the route that keeps lab traffic off the real interface."""

import re
from pathlib import Path

from ddops.lab.command import run
from ddops.lab.config import LabConfig

_NAMESPACES = Path("/run/netns")


def ip(config: LabConfig, *args: str, check: bool = True) -> str:
    """Runs ip where the lab's bridge is; raises LabError where it fails and `check` is true."""
    return run("ip", *_where(config), *args, check=check)


def tc(config: LabConfig, *args: str, check: bool = True) -> str:
    """Runs tc where the lab's bridge is; raises LabError where it fails and `check` is true."""
    return run("tc", *_where(config), *args, check=check)


def _where(config: LabConfig) -> list[str]:
    return ["-n", config.netns] if config.netns else []


def inside(config: LabConfig) -> list[str]:
    """Prefix of a command that must reach the hosts' addresses."""
    # not `ip netns exec`: it mounts another /sys, without the control groups
    return ["nsenter", f"--net={_NAMESPACES / config.netns}"] if config.netns else []


def ensure(config: LabConfig) -> None:
    """Makes the bridge with the first address of the network; nothing where it is there."""
    if config.netns and not (_NAMESPACES / config.netns).exists():
        if not _NAMESPACES.exists():
            (config.state / "netns.made").touch()
        run("ip", "netns", "add", config.netns)
        ip(config, "link", "set", "lo", "up")
    # replace: also where an `up` was killed between any two of these
    route = ["unreachable", f"{config.net}.0/24", "metric", "65000"]
    ip(config, "route", "replace", *route)
    if config.bridge not in links(config):
        # a fixed address: else it is the lowest of its ports', changes as hosts come and go,
        # and goes stale in their ARP tables
        mac = "02:00:" + ":".join(f"{int(octet):02x}" for octet in f"{config.net}.1".split("."))
        ip(config, "link", "add", config.bridge, "address", mac, "type", "bridge")
    ip(config, "addr", "replace", f"{config.net}.1/24", "dev", config.bridge)
    ip(config, "link", "set", config.bridge, "up")


def drop(config: LabConfig) -> None:
    """Removes all that `ensure` made; nothing where it is gone."""
    if config.netns and not (_NAMESPACES / config.netns).exists():
        return
    for link in links(config):
        ip(config, "link", "del", link, check=False)
    ip(config, "route", "del", "unreachable", f"{config.net}.0/24", "metric", "65000", check=False)
    if config.netns:
        run("ip", "netns", "del", config.netns)
        made = config.state / "netns.made"
        if made.exists() and not any(_NAMESPACES.iterdir()):
            # `ip netns add` mounts the folder onto itself
            run("umount", _NAMESPACES, check=False)
            _NAMESPACES.rmdir()
            made.unlink()


def links(config: LabConfig) -> list[str]:
    """Names of the lab's own links: bridge, ports, taps."""
    # a list that changes while it is read ends in a line of another kind
    names = re.findall(r"^\d+: ([^:@]+)", ip(config, "-o", "link"), re.MULTILINE)
    return [name for name in names if name.startswith(config.tag)]
