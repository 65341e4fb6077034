"""The site: the user's own file with hosts, ways in, and paths; never in a profile."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from pydantic import Field, PositiveInt

from . import config
from .config import Strict
from .errors import UsageError

# neither is ever an option of ssh's
_ADDRESS = r"^[^\s@,-][^\s@,]*$"
_JUMP = r"^[^\s,-][^\s,]*(,[^\s,-][^\s,]*)*$"


class HostEntry(Strict):
    """One host: an address, or ``local`` for this machine. What is left out comes from ssh_config.

    ``jump`` is as ssh_config's ProxyJump; key and known hosts that are given here hold for every hop.
    """

    address: str = Field(pattern=_ADDRESS)
    user: str | None = None
    port: PositiveInt | None = Field(default=None, le=65535)
    jump: str | None = Field(default=None, pattern=_JUMP)
    identity_file: Path | None = None
    known_hosts: Path | None = None
    lab: bool = False


class EngineEntry(Strict):
    python: str


class Site(Strict):
    hosts: dict[str, HostEntry] = Field(min_length=1)
    engine: EngineEntry
    model: str


def candidates() -> list[Path]:
    """Returns where a site file is looked for, the first found wins."""
    config_home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    state_home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    lab = Path(os.environ.get("DDOPS_LAB_DIR") or state_home / "ddops" / "lab")
    return [Path("ddops.yaml"), config_home / "ddops" / "site.yaml", lab / "site.yaml"]


def find(flag: Path | None) -> Path:
    """Returns the site file: the flag's or DDOPS_SITE's, the project's, the user's, the lab's."""
    named = flag or (Path(os.environ["DDOPS_SITE"]) if os.environ.get("DDOPS_SITE") else None)
    if named:
        return named
    for path in candidates():
        if path.exists():
            return path
    raise UsageError(
        "no site file",
        f"looked for {', '.join(str(p) for p in candidates())}",
        "ddops lab up lab makes a host to try with, or name the file: --site FILE",
    )


def load(flag: Path | None) -> Site:
    """Returns the site; raises UsageError where there is none or it is wrong."""
    return config.read(find(flag), Site)


def choose(site: Site, name: str | None) -> tuple[str, HostEntry]:
    """Returns the host of that name, or the only one; raises UsageError with the nearest known name."""
    if name is None:
        if len(site.hosts) == 1:
            return next(iter(site.hosts.items()))
        raise UsageError("which host?", f"the site has {', '.join(sorted(site.hosts))}", "--host NAME")
    if name in site.hosts:
        return name, site.hosts[name]
    near = difflib.get_close_matches(name, site.hosts, n=1)
    raise UsageError(
        f"unknown host '{name}'",
        f"the site has {', '.join(sorted(site.hosts))}",
        f"did you mean '{near[0]}'?" if near else "",
    )
