"""The site: the user's own file with hosts, ways in, and paths; never in a profile."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PositiveInt, field_validator

from . import config
from .config import Layer, Strict
from .errors import UsageError, did_you_mean

# neither is ever an option of ssh's
_ADDRESS = r"^[^\s@,-][^\s@,]*$"
_JUMP = r"^[^\s,-][^\s,]*(,[^\s,-][^\s,]*)*$"


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"'{path}' is not an absolute path")
    return path


OnHost = Annotated[str, AfterValidator(_absolute)]


class OverlayEntry(Strict):
    """What changes SGLang: the plug-in that ddops carries, and a folder of diffs of the site's own."""

    diffs: str | None = None
    plugin: bool = True


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
    profile: str | None = None
    python: OnHost | None = None
    model: OnHost | None = None
    drafter: OnHost | None = None
    overlay: OverlayEntry | None = None
    overrides: dict[str, Any] = Field(default_factory=dict)


class EngineEntry(Strict):
    python: OnHost


class Notify(Strict):
    """Who is told of incidents and of trials that failed, by the host itself."""

    command: list[str] | None = None
    webhook_url_file: str | None = Field(default=None, pattern=r"^/")


class Site(Strict):
    hosts: dict[str, HostEntry]
    engine: EngineEntry
    model: OnHost
    drafter: OnHost | None = None
    overlay: OverlayEntry = Field(default_factory=OverlayEntry)
    secrets: list[OnHost] = Field(default_factory=list)
    credentials: dict[str, OnHost] = Field(default_factory=dict)
    notify: Notify = Field(default_factory=Notify)
    profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @field_validator("hosts")
    @classmethod
    def _some(cls, hosts: dict[str, HostEntry]) -> dict[str, HostEntry]:
        if not hosts:
            raise ValueError("no host is named")
        return hosts

    @field_validator("credentials")
    @classmethod
    def _variables(cls, credentials: dict[str, str]) -> dict[str, str]:
        for name in credentials:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII):
                raise ValueError(f"'{name}' cannot be the name of an environment variable")
        return credentials

    def at(self, entry: HostEntry) -> Site:
        """Returns the site with what the host has of its own."""
        own: dict[str, Any] = {"model": entry.model, "drafter": entry.drafter, "overlay": entry.overlay}
        own["engine"] = EngineEntry(python=entry.python) if entry.python else None
        return self.model_copy(update={k: v for k, v in own.items() if v})


class NoSite(UsageError):
    """There is no site file."""


def candidates() -> list[Path]:
    """Returns the project's file and the user's, which wins over the user's where both are there; then the lab's."""
    state_home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    lab = Path(os.environ.get("DDOPS_LAB_DIR") or state_home / "ddops" / "lab")
    return [Path("ddops.yaml"), user_file(), lab / "site.yaml"]


def user_file() -> Path:
    """Returns where the user's own site file is."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "ddops" / "site.yaml"


def layers(flag: Path | None) -> list[Layer]:
    """Returns the site files, the last one wins: the flag's or DDOPS_SITE's alone, or the user's and the project's.

    The lab's is read where there is none of these. Raises NoSite where there is none, UsageError for a wrong one.
    """
    if named := flag or (Path(os.environ["DDOPS_SITE"]) if os.environ.get("DDOPS_SITE") else None):
        if not named.exists():
            by = "--site" if flag else "DDOPS_SITE"
            raise UsageError(f"there is no site file {named}", f"{by} names it", "ddops site init FILE writes one")
        return [_layer(named)]
    project, user, lab = candidates()
    found = [_layer(path) for path in (user, project) if path.exists()]
    if not found and lab.exists():
        of_lab = _layer(lab)
        hosts = of_lab.below("hosts")
        found = [] if hosts and not hosts.value else [of_lab]  # none is left after 'ddops lab down'
    if not found:
        raise NoSite(
            "no site file",
            f"looked for {', '.join(str(p) for p in candidates())}",
            "ddops site init writes one; ddops lab up lab makes a host to try with",
        )
    return found


def _layer(path: Path) -> Layer:
    """Returns a site file as a layer, its folders of diffs as they are seen from the file's own folder."""
    found = config.layer(path)
    parts = [found.below("overlay")]
    hosts = found.below("hosts")
    if hosts and isinstance(hosts.value, dict):
        parts += [hosts.below(str(name), "overlay") for name in hosts.value]
    for part in parts:
        if part and isinstance(part.value, dict) and isinstance(named := part.value.get("diffs"), str) and named:
            part.value["diffs"] = str(path.absolute().parent / _at_home(named, path))
    return found


def _at_home(named: str, of: Path) -> Path:
    try:
        return Path(named).expanduser()
    except RuntimeError:
        raise UsageError(f"{of}: overlay.diffs is '{named}'", "there is no such user", "write the folder out") from None


def load(flag: Path | None) -> Site:
    """Returns the site; raises UsageError where there is none or it is wrong."""
    return config.merge(Site, layers(flag)).value


def choose(site: Site, name: str | None) -> tuple[str, HostEntry]:
    """Returns the host of that name, or the only one; raises UsageError with the nearest known name."""
    name = name or os.environ.get("DDOPS_HOST") or None
    if name is None:
        if len(site.hosts) == 1:
            return next(iter(site.hosts.items()))
        raise UsageError("which host?", f"the site has {', '.join(sorted(site.hosts))}", "--host NAME")
    if name in site.hosts:
        return name, site.hosts[name]
    raise UsageError(
        f"unknown host '{name}'",
        f"the site has {', '.join(sorted(site.hosts))}",
        did_you_mean(name, site.hosts, "--host USER@ADDRESS reaches one that the site does not name"),
    )
