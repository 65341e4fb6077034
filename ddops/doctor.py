"""Preflight alone, on every host of the site: what a deploy and the way back would stand on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import diffs, hosts, settings
from . import site as sites
from .errors import DdopsError, Unreachable
from .exit_codes import ExitCode
from .profile import Profile
from .remote import Agent
from .site import HostEntry, Site

STATES = ("ok", "warn", "bad", "not here")
_CLOCK_S = 2.0  # two hosts' lines could no longer be put in order
_PATIENCE_S = 180.0  # SGLang's own files are read once, and known-good may be slow to answer
_AT_ONCE = 8


@dataclass(frozen=True)
class Check:
    """One check: its state (one of STATES), what was found, why it matters, the next command."""

    name: str
    state: str
    found: str
    why: str = ""
    next: str = ""

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "state": self.state, "found": self.found, "why": self.why, "next": self.next}


@dataclass(frozen=True)
class Examined:
    """What was found on one host."""

    host: str
    profile: str | None
    checks: list[Check]
    unreachable: bool = False

    @property
    def good(self) -> bool:
        return not any(check.state == "bad" for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "profile": self.profile,
            "good": self.good,
            "unreachable": self.unreachable,
            "checks": [check.as_json() for check in self.checks],
        }


def examine(flag: Path | None, name: str | None, began: Callable[[str], None], ask: hosts.Ask) -> Iterator[Examined]:
    """Examines every host of the site, or the named one, several at once; yields them in the order of their names.

    ``began`` is told each host's name before anything else is done, then ``ask`` is asked for what opens keys. Raises
    UsageError for a site file or a profile that is wrong, before anybody connects.
    """
    site = sites.load(flag)
    chosen = [sites.choose(site, name)] if name else sorted(site.hosts.items())
    planned = [(host, entry, *_about(host, entry, site, flag)) for host, entry in chosen]
    for host, _, _, _ in planned:
        began(host)
    ways = hosts.several(chosen, ask)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        yield from pool.map(lambda each, way: _asked(each[0], way, each[2], _doctor(each[3])), planned, ways)


def fit(flag: Path | None, name: str | None, began: Callable[[str], None], ask: hosts.Ask) -> Iterator[Examined]:
    """As ``examine``, for nothing but what changes SGLang: the plug-in's hooks and the site's diffs."""
    site = sites.load(flag)
    chosen = [sites.choose(site, name)] if name else sorted(site.hosts.items())
    planned = [(host, diffs.fit(site.at(entry))) for host, entry in chosen]
    for host, _ in planned:
        began(host)
    ways = hosts.several(chosen, ask)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        yield from pool.map(lambda each, way: _asked(each[0], way, None, _fit(each[1])), planned, ways)


def exit_code(found: list[Examined]) -> ExitCode:
    """Returns what the command ends with: a host that was not reached counts before one that is not well."""
    if any(each.unreachable for each in found):
        return ExitCode.UNREACHABLE
    return ExitCode.OK if all(each.good for each in found) else ExitCode.UNHEALTHY


def _about(host: str, entry: HostEntry, site: Site, flag: Path | None) -> tuple[Profile | None, dict[str, Any]]:
    """Returns the host's profile, if the site names one, and what its agent is to look for."""
    at_home = site.at(entry)
    profile = settings.resolve(entry.profile, flag, host, settings.Asked()).profile if entry.profile else None
    return profile, {
        **diffs.fit(at_home),
        "model": at_home.model,
        "drafter": at_home.drafter,
        "secrets": [*at_home.secrets, *at_home.credentials.values()],
        "user": profile.user if profile else None,
        "service": profile.service if profile else "service",
        "public_port": profile.ports.public if profile else None,
        "sglang": profile.sglang if profile else None,
        "hardware": profile.hardware.model_dump() if profile else None,
    }


def _doctor(about: dict[str, Any]) -> Callable[[Agent], list[Check]]:
    def look(agent: Agent) -> list[Check]:
        answer = agent.ask("doctor", timeout=_PATIENCE_S, about=about)
        return [_clock(float(answer["now"])), *(Check(**found) for found in answer["findings"])]

    return look


def _fit(about: dict[str, Any]) -> Callable[[Agent], list[Check]]:
    return lambda agent: [Check(**found) for found in agent.ask("overlay", timeout=_PATIENCE_S, about=about)]


def _asked(
    host: str, way: hosts.Host | DdopsError, profile: Profile | None, look: Callable[[Agent], list[Check]]
) -> Examined:
    named = profile.name if profile else None
    if isinstance(way, DdopsError):
        return Examined(host, named, [_failed("ssh", way)])
    agent = Agent(way, "")
    try:
        checks = [_ssh(agent)]
        return Examined(host, named, checks + look(agent))
    except Unreachable as error:
        return Examined(host, named, [_failed("ssh", error)], unreachable=True)
    except _NotLetIn as error:
        return Examined(host, named, [_failed("ssh", error.error)])
    except DdopsError as error:
        return Examined(host, named, [*checks, _failed("root", error)])
    finally:
        agent.close()


class _NotLetIn(Exception):
    """The host answers, and its key, or what its shell says, is not what it must be."""

    def __init__(self, error: DdopsError) -> None:
        super().__init__(str(error))
        self.error = error


def _ssh(agent: Agent) -> Check:
    """Connects and runs a command that does nothing, so that a missing sudo is told from a missing way in."""
    try:
        channel = agent.host.open(["true"])
        channel.line(10)
        channel.close()
    except Unreachable:
        raise
    except DdopsError as error:
        raise _NotLetIn(error) from None
    local = agent.host.name == "local"
    return Check(
        "ssh", "ok", "this machine" if local else f"{agent.host.user} is let in; the host key is the known one"
    )


def _clock(now: float) -> Check:
    """Compares the host's clock, as its last words tell it, with this machine's."""
    ahead = now - time.time()
    if abs(ahead) <= _CLOCK_S:
        return Check("clock", "ok", f"within {_CLOCK_S:g} s of this machine's")
    way = "ahead of" if ahead > 0 else "behind"
    why = "times of incidents and of other hosts cannot be compared"
    return Check("clock", "warn", f"{abs(ahead):.0f} s {way} this machine's", why, "timedatectl; on both")


def _failed(name: str, error: DdopsError) -> Check:
    return Check(name, "bad", error.what, error.why, error.hint)
