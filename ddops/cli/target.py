"""Which host and which service a command means."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import hosts, site
from ..errors import Refused, UsageError, did_you_mean
from ..remote import Agent
from ..site import HostEntry
from . import output, passphrase

if TYPE_CHECKING:
    from ..profile import Profile


def entry(host: str | None, site_file: Path | None) -> tuple[str, HostEntry]:
    """Returns the host that is meant; ``user@address`` and ``local`` need no site file."""
    host = _named(host)
    if host == "local":
        return "local", HostEntry(address="local")
    if host and "@" in host:
        user, _, address = host.partition("@")
        try:
            return host, HostEntry(address=address, user=user)
        except ValueError:
            raise UsageError(f"'{host}' is no host", "user@address is wanted", "--host ops@192.0.2.7") from None
    return site.choose(site.load(site_file), host)


def _named(host: str | None) -> str | None:
    """Returns the host that is named on the command line or in the environment."""
    return host or os.environ.get("DDOPS_HOST") or None


def _of_site(host: str | None) -> bool:
    """Says whether the host is one that a site file knows."""
    named = _named(host)
    return not (named and (named == "local" or "@" in named))


def connector(name: str, found: HostEntry, service: str) -> Callable[[], Agent]:
    """Returns what makes a fresh connection to the service's agent."""
    made = hosts.connector(name, found, passphrase.ask)
    return lambda: Agent(made(), service)


def existing(host: str | None, site_file: Path | None, service: str | None) -> tuple[Agent, Callable[[], Agent]]:
    """Returns the agent of a service that the host has already: the named one, or the only one."""
    name, found = entry(host, site_file)
    output.asking(name)
    made = hosts.connector(name, found, passphrase.ask)
    agent = Agent(made(), service or "")
    service = service or os.environ.get("DDOPS_SERVICE")
    known = agent.ask("services")
    if service and service not in known:
        hint = did_you_mean(service, known, "ddops adopt UNIT")
        raise Refused(f"{name} has no service '{service}'", f"it has: {', '.join(known) or 'none'}", hint)
    if not service:
        if not known:
            raise Refused(f"{name} has no service yet", "nothing was adopted or deployed there", "ddops adopt UNIT")
        if len(known) > 1:
            raise UsageError("which service?", f"{name} has {', '.join(known)}", "--service NAME")
        agent.service = known[0]
    return agent, lambda: Agent(made(), agent.service)


def known(host: str | None, site_file: Path | None, named: str | None) -> tuple[Profile | None, dict[str, Any]]:
    """Returns the named profile or the host's, None where neither is, and what a deploy would stand on there.

    The latter is empty where no site file tells it.
    """
    from .. import deploy, settings

    _, found = entry(host, site_file)
    at_home = site.load(site_file).at(found) if _of_site(host) else None
    about = deploy.stands_on(at_home) if at_home else {}
    if (named := named or found.profile) is None:
        return None, about
    asked, of_site = settings.Asked(), host if at_home else None
    return settings.resolve(named, site_file, of_site, asked, need_site=False, elsewhere=not at_home).profile, about


def server(
    given: str | None, host: str | None, site_file: Path | None, service: str | None
) -> tuple[str, Callable[[], Agent] | None]:
    """Returns the server that is meant: by its URL, or where users reach a service of a host, and what connects to it.

    Raises UsageError where both are named, Refused where the service's front is closed.
    """
    if given:
        if host or service:
            raise UsageError("which server?", "a URL and a host or service are named", "--url alone, or --host")
        return given, None
    name, found = entry(host, site_file)
    agent, connect = existing(host, site_file, service)
    status = agent.ask("status")
    agent.close()
    if status.get("front") not in ("open", "none"):
        raise Refused(
            f"{name}: nothing serves '{agent.service}'", f"its front is {status.get('front')}", "ddops status"
        )
    address = "127.0.0.1" if found.address == "local" else found.address
    address = f"[{address}]" if ":" in address else address  # IPv6
    return f"http://{address}:{status['public_port']}", connect


def profile(host: str | None, site_file: Path | None, named: str | None) -> Profile:
    """Returns the named profile or the host's, with what the site changes; raises UsageError where there is none."""
    from .. import settings

    if (named := named or entry(host, site_file)[1].profile) is None:
        raise UsageError("which profile?", "the site file gives the host none", "--profile NAME")
    at_home = _of_site(host)
    asked, known = settings.Asked(), host if at_home else None
    return settings.resolve(named, site_file, known, asked, need_site=False, elsewhere=not at_home).profile
