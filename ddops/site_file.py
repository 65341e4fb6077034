"""Writing a site file, and testing one against its hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import hosts, resources, settings
from . import site as sites
from .errors import DdopsError, Refused, Unreachable, UsageError
from .remote import Agent
from .site import HostEntry, Site


@dataclass(frozen=True)
class Finding:
    """One thing that the site file says of a host, and whether it is so."""

    name: str
    good: bool
    text: str


@dataclass(frozen=True)
class Checked:
    """What one host answered."""

    host: str
    findings: list[Finding] = field(default_factory=list)
    unreachable: bool = False

    @property
    def good(self) -> bool:
        return not self.unreachable and all(finding.good for finding in self.findings)

    @property
    def word(self) -> str:
        return "not reached" if self.unreachable else "not as it says"

    def as_json(self) -> dict[str, Any]:
        findings = [{"name": f.name, "good": f.good, "text": f.text} for f in self.findings]
        return {"host": self.host, "good": self.good, "unreachable": self.unreachable, "findings": findings}


def write(file: Path | None) -> Path:
    """Writes the commented site file and returns its path; raises Refused where there is a file already."""
    path = file or sites.user_file()
    text = (resources.folder("templates") / "site.yaml").read_text()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as target:
            target.write(text)
    except FileExistsError:
        raise Refused(f"{path} is there already", "a site file is never overwritten", "ddops site check") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}", error.strerror or str(error)) from None
    return path


def check(flag: Path | None, name: str | None, ask: hosts.Ask) -> list[Checked]:
    """Asks every host of the site, or the named one; ``ask`` is asked for what opens keys.

    Raises UsageError for a site file that is wrong.
    """
    site = sites.load(flag)
    chosen = [sites.choose(site, name)] if name else sorted(site.hosts.items())
    users = [_user(host, entry, flag) for host, entry in chosen]
    ways = hosts.several(chosen, ask)
    return [
        _check(host, way, site.at(entry), user) for (host, entry), way, user in zip(chosen, ways, users, strict=True)
    ]


def _check(name: str, way: hosts.Host | DdopsError, site: Site, user: str | None) -> Checked:
    if isinstance(way, DdopsError):
        return Checked(name, [Finding("ssh", False, _told(way))])
    about = {
        "python": site.engine.python,
        "model": site.model,
        "drafter": site.drafter,
        "secrets": [*site.secrets, *site.credentials.values()],
        "user": user,
    }
    agent, tried = Agent(way, ""), "ssh"
    try:
        agent.host.connect()
        tried = "root"
        return Checked(name, [Finding(**found) for found in agent.ask("site", about=about)])
    except Unreachable as error:
        return Checked(name, [Finding("ssh", False, _told(error))], unreachable=True)
    except DdopsError as error:
        return Checked(name, [Finding(tried, False, _told(error))])
    finally:
        agent.close()


def _told(error: DdopsError) -> str:
    """Returns an error in a line, with what to do about it."""
    return "; ".join(filter(None, (str(error), error.hint)))


def _user(name: str, entry: HostEntry, flag: Path | None) -> str | None:
    """Returns the user that the host's profile runs the engine as, None where systemd makes one."""
    if entry.profile is None:
        return None
    return settings.resolve(entry.profile, flag, name, settings.Asked()).profile.user
