"""Where a lab keeps its things and which network it uses."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ddops.lab import recipe
from ddops.lab.errors import LabError

DEFAULT_NET = "10.213.77"


@dataclass(frozen=True)
class LabConfig:
    """One lab: labs with different state folders and networks run side by side."""

    state: Path
    """Hosts, keys and the files for clients; belongs to one lab."""
    cache: Path
    """Built things that labs share: root file system, engine, model."""
    net: str = DEFAULT_NET
    """First three octets of the hosts' /24."""
    netns: str = ""
    """Named network namespace that holds the bridge; empty for the machine's own,
    where plain `ssh` from any terminal reaches the hosts."""
    distribution: str = recipe.DISTRIBUTION
    """What new hosts run; the engine is built for the default alone."""

    def __post_init__(self) -> None:
        if self.distribution not in recipe.DISTRIBUTIONS:
            raise LabError(
                f"not a distribution of lab hosts: {self.distribution!r}",
                f"known are: {', '.join(recipe.DISTRIBUTIONS)}",
                "set DDOPS_LAB_DISTRIBUTION to one of them",
            )
        octets = self.net.split(".")
        if len(octets) != 3 or not all(o.isdecimal() and int(o) < 256 for o in octets):
            raise LabError(
                f"not a lab network: {self.net!r}",
                "three octets are wanted",
                f"set DDOPS_LAB_NET to something like {DEFAULT_NET}",
            )
        if not re.fullmatch(r"[A-Za-z0-9_-]*", self.netns):
            raise LabError(
                f"not a network namespace's name: {self.netns!r}",
                "letters, digits, - and _ are allowed",
                "set DDOPS_LAB_NETNS to a plain name",
            )
        for folder in (self.state, self.cache):
            # these separate overlayfs' options
            if re.search(r"[:,\\]", str(folder)):
                raise LabError(
                    f"not usable as a lab folder: {folder}",
                    "overlayfs cannot take a path with a colon, comma or backslash",
                    "set DDOPS_LAB_DIR and DDOPS_LAB_CACHE to other folders",
                )

    @classmethod
    def from_environment(cls) -> "LabConfig":
        """Reads DDOPS_LAB_DIR, DDOPS_LAB_CACHE, DDOPS_LAB_NET, DDOPS_LAB_NETNS and DDOPS_LAB_DISTRIBUTION.

        Raises LabError for a value that cannot work.
        """
        return cls(
            state=_folder("DDOPS_LAB_DIR", "XDG_STATE_HOME", ".local/state"),
            cache=_folder("DDOPS_LAB_CACHE", "XDG_CACHE_HOME", ".cache"),
            net=os.environ.get("DDOPS_LAB_NET") or DEFAULT_NET,
            netns=os.environ.get("DDOPS_LAB_NETNS", ""),
            distribution=os.environ.get("DDOPS_LAB_DISTRIBUTION") or recipe.DISTRIBUTION,
        )

    @property
    def tag(self) -> str:
        """Short name of the network; link names have 15 characters at most."""
        return "dl" + "".join(f"{int(octet):02x}" for octet in self.net.split("."))

    @property
    def bridge(self) -> str:
        return f"{self.tag}br"

    @property
    def cgroup(self) -> str:
        return f"ddops-lab-{self.net}"

    @property
    def hosts(self) -> Path:
        return self.state / "hosts"

    @property
    def key(self) -> Path:
        return self.state / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.state / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        return self.state / "ssh_config"

    @property
    def site(self) -> Path:
        return self.state / "site.yaml"


def _folder(own: str, xdg: str, fallback: str) -> Path:
    if given := os.environ.get(own):
        return Path(given).absolute()
    base = os.environ.get(xdg)
    return (Path(base) if base else Path.home() / fallback) / "ddops/lab"
