"""The operator's copies of the hosts' ledgers, under XDG_DATA_HOME: what can be read where a host cannot be reached.

A file for each ledger, ``ddops/ledgers/HOST/SERVICE/ID.db``: a host that was made anew has another one, and what is
known of the former one stays. A copy is never what anything is decided by.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from .agent.database import Database

_ID = r"[0-9a-f]{32}"


def data_home() -> Path:
    """Returns the folder in which a user's data are kept."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


@dataclass(frozen=True)
class Copied:
    """What a copy holds: entries, the stack as it was last seen, and when it was last brought up to date."""

    entries: list[dict[str, Any]]
    stack: dict[str, Any]
    taken: datetime


@dataclass(frozen=True)
class Copy:
    """The copies of one service of one host."""

    host: str
    service: str

    @property
    def folder(self) -> Path:
        return _of_host(self.host) / quote(self.service, safe="")

    def known(self) -> dict[str, int]:
        """Returns up to which entry each ledger was copied, by the ledger's id. A damaged copy is put aside."""
        from .agent.database import Damaged, Unusable

        found = {}
        for path in self._paths():
            try:
                with _open(path, write=False) as database:
                    entries = database.entries()
                # a host counts from 1 without a gap: one in the copy is to be filled
                found[path.stem] = len(entries) if entries and entries[-1]["seq"] == len(entries) else 0
            except Damaged:
                with contextlib.suppress(OSError):
                    path.rename(path.with_suffix(".damaged"))
            except Unusable:
                continue
        return found

    def take(self, answer: dict[str, Any]) -> str:
        """Stores what a host has told beyond what was known; returns why it could not be, '' where it is stored."""
        from .agent.database import Unusable

        if answer["id"] is None:
            return ""  # the host has no ledger now, and tells of that itself
        if not re.fullmatch(_ID, str(answer["id"])):
            return f"{answer['id']!r} is no ledger's id"
        path = self.folder / f"{answer['id']}.db"
        try:
            for folder in (data_home(), data_home() / "ddops", _root(), _of_host(self.host), self.folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _store(path, answer)
        except (Unusable, OSError) as error:
            return f"{path}: {getattr(error, 'strerror', None) or error}"
        return ""

    def read(self) -> Copied | None:
        """Returns the copy that was taken last, None where there is none that can be read."""
        from .agent.database import Unusable

        newest: Copied | None = None
        for path in self._paths():
            try:
                with _open(path, write=False) as database:
                    taken = datetime.fromisoformat(database.meta("taken") or "")
                    if newest is None or taken > newest.taken:
                        stack = json.loads(database.meta("stack") or "{}")
                        newest = Copied(database.entries(), stack, taken)
            except (Unusable, ValueError):
                continue
        return newest

    def _paths(self) -> list[Path]:
        return [path for path in self.folder.glob("*.db") if re.fullmatch(_ID, path.stem)]


def services(host: str) -> list[str]:
    """Returns the services of a host of which there are copies."""
    folder = _of_host(host)
    return sorted(unquote(path.name) for path in folder.iterdir()) if folder.is_dir() else []


def _root() -> Path:
    return data_home() / "ddops" / "ledgers"


def _of_host(host: str) -> Path:
    name = quote(host, safe="@")
    return _root() / (name.replace(".", "%2E") if name.strip(".") == "" else name)


def _open(path: Path, *, write: bool) -> Database:
    from .agent.database import Database

    return Database(path, write=write)


def _store(path: Path, answer: dict[str, Any]) -> None:
    noted = {"taken": datetime.now(UTC).isoformat()}
    if "stack" in answer:
        noted["stack"] = json.dumps({**answer["stack"], "seen": noted["taken"]})
    with _open(path, write=True) as database:
        database.add(answer["entries"], **noted)
