"""Where everything of one service lies on the host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .errors import Refused

STATE_ROOT = Path("/var/lib/ddops")
RUN_ROOT = Path("/run/ddops")
UNITS = Path("/etc/systemd/system")
RUNTIME_UNITS = Path("/run/systemd/system")
BOOT_WANTS = UNITS / "multi-user.target.wants"
LAB_MARK = Path("/etc/ddops-lab")

SERVICE_NAME = r"[a-z][a-z0-9-]{0,38}[a-z0-9]"
SERVICE_NAME_IN_WORDS = "a service name is 2 to 40 of a-z, 0-9 and -, begins with a letter and does not end in -"
_UNIT_NAME = re.compile(r"[A-Za-z0-9_@:\\.][A-Za-z0-9_@:\\.-]{0,246}\.service", re.ASCII)


@dataclass(frozen=True)
class Layout:
    """Paths and unit names of the service ``name``."""

    name: str
    root: Path
    run: Path

    @property
    def releases(self) -> Path:
        return self.root / "releases"

    @property
    def operations(self) -> Path:
        return self.root / "operations"

    @property
    def evaluations(self) -> Path:
        return self.root / "evaluations"

    @property
    def ledger(self) -> Path:
        """The database of all verdicts, made of what lies in ``operations`` and ``evaluations``."""
        return self.root / "ledger.db"

    @property
    def references(self) -> Path:
        return self.root / "references"

    @property
    def known_good(self) -> Path:
        return self.root / "known-good"

    @property
    def live(self) -> Path:
        return self.root / "live"

    @property
    def paused(self) -> Path:
        """While this file exists nothing is done about an incident after promotion."""
        return self.root / "paused"

    @property
    def incidents(self) -> Path:
        """What the promoted engine showed and what was done about it, a line each."""
        return self.root / "incidents.jsonl"

    @property
    def notices(self) -> Path:
        return self.root / "notices"

    @property
    def notify(self) -> Path:
        """Where notices go: the site's ``notify``."""
        return self.root / "notify.json"

    @property
    def format(self) -> Path:
        """Which format the state has, and which ddops marked it so."""
        return self.root / "format"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def reserve(self) -> Path:
        """Room that is kept for the way back on a full disk."""
        return self.root / "reserve"

    @property
    def agent(self) -> Path:
        return self.root / "agent.pyz"

    @property
    def rollback_script(self) -> Path:
        return self.root / "rollback"

    @property
    def cancel(self) -> Path:
        return self.run / "cancel"

    @property
    def confirmed(self) -> Path:
        return self.run / "confirmed"

    @property
    def seen(self) -> Path:
        """The invocation under watch, and what was seen of it."""
        return self.run / "seen"

    @property
    def wake(self) -> Path:
        return self.run / "wake"

    @property
    def front_closed(self) -> Path:
        """While this file exists systemd skips every start of the front (a condition of its units)."""
        return self.run / "front-closed"

    @property
    def front_target(self) -> Path:
        return self.root / "front-target"

    @property
    def front_target_of_trial(self) -> Path:
        """Wins over ``front_target`` until the next boot."""
        return self.run / "front-target"

    def release_dir(self, release: int) -> Path:
        return self.releases / f"{release:04d}"

    @property
    def alias(self) -> str:
        """The name that boots; a symbolic link to known-good's unit."""
        return f"{self.name}.service"

    @property
    def front_socket(self) -> str:
        return f"{self.name}-front.socket"

    @property
    def front_service(self) -> str:
        return f"{self.name}-front.service"

    @property
    def supervisor(self) -> str:
        return f"ddops-supervisor@{self.name}.service"


def layout_of(name: str, state_root: Path = STATE_ROOT, run_root: Path = RUN_ROOT) -> Layout:
    """Returns the layout of a service; raises Refused for a name that cannot be a unit's."""
    if not re.fullmatch(SERVICE_NAME, name):
        raise Refused(f"'{name}' cannot be a service name", SERVICE_NAME_IN_WORDS, "choose another name")
    return Layout(name, state_root / name, run_root / name)


def unit_name(name: str) -> str:
    """Returns the name; raises Refused for one that cannot be a service unit's: systemctl would take it for more."""
    if not _UNIT_NAME.fullmatch(name):
        raise Refused(
            f"'{name}' cannot be the name of a service unit",
            "letters, digits and :-_.@\\, not - at the start, up to 255, .service at the end",
            "systemctl list-units --type=service shows what runs",
        )
    return name


def services(state_root: Path = STATE_ROOT) -> list[str]:
    """Returns the names of the services that this host keeps."""
    if not state_root.is_dir():
        return []
    return sorted(p.name for p in state_root.iterdir() if (p / "operations").is_dir())
