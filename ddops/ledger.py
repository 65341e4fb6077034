"""What a host's ledger says, asked of the host, or read from the operator's copy of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from . import copies
from .agent.entries import in_order
from .copies import Copy
from .errors import Refused, Unreachable, UsageError
from .remote import Agent


@dataclass(frozen=True)
class Book:
    """The entries of one service's ledger, the oldest first, and what they are compared with.

    ``asked`` is when the host told it; ``unreachable`` is why it was not asked now, where that was wanted.
    """

    host: str
    service: str
    entries: list[dict[str, Any]]
    stack: dict[str, Any]
    asked: datetime
    from_copy: bool = False
    unreachable: Unreachable | None = None
    warnings: tuple[str, ...] = ()

    @property
    def age_s(self) -> float:
        return (datetime.now(UTC) - self.asked).total_seconds()

    def as_json(self) -> dict[str, Any]:
        """Returns where it is from, without the entries."""
        return {
            "service": self.service,
            "host": self.host,
            "source": "copy" if self.from_copy else "host",
            "asked": self.asked.isoformat(timespec="seconds"),
            "age_s": round(self.age_s),
            "unreachable": self.unreachable.what if self.unreachable else None,
            "warnings": list(self.warnings),
        }

    def operations(self) -> list[dict[str, Any]]:
        """Returns the operations in brief, the oldest first."""
        found = [entry["brief"] for entry in self.entries if entry["kind"] != "eval"]
        return sorted(found, key=lambda operation: operation["operation"] or 0)


def ask(agent: Agent, about: dict[str, Any] | None) -> Book:
    """Asks the host for what the copy lacks, brings the copy up to date, and returns all of it.

    ``about`` is what a deploy would stand on there, as ``deploy.stands_on`` makes it; {}: what the live release does;
    None: what verdicts are compared with is not asked for.
    """
    kept = Copy(agent.host.name, agent.service)
    known = kept.known()
    told = agent.ask("ledger", copy=known, about=about)
    problem = kept.take(told)
    copied = None if problem else kept.read()
    warnings = [f"the host's ledger: {told['problem']}"] if told["problem"] else []
    if told["id"] is None:
        found = told["entries"]
    elif copied is not None:
        found = copied.entries
    else:  # what was known before is of no use without the file that it is in
        warnings.append(f"the copy here was not brought up to date: {problem or kept.folder}")
        found = agent.ask("ledger", copy={}, about=about)["entries"] if known else told["entries"]
    now = datetime.now(UTC)
    return Book(agent.host.name, agent.service, in_order(found), told.get("stack") or {}, now, warnings=tuple(warnings))


def offline(host: str, service: str | None, because: Unreachable | None = None) -> Book:
    """Returns what the operator's copy says.

    Raises Refused where there is none, or ``because`` if that is why nobody was asked; UsageError where several
    services were copied and none is named.
    """
    known = copies.services(host)
    if service is None and len(known) > 1:
        raise UsageError("which service?", f"there are copies of {', '.join(known)}", "--service NAME")
    name = service or next(iter(known), "")
    copied = Copy(host, name).read() if name else None
    if copied is None:
        if because:
            raise because
        of = f"{service} on {host}" if service else host
        raise Refused(f"there is no copy of the ledger of {of}", "it was never asked from here", "without --offline")
    return Book(host, name, in_order(copied.entries), copied.stack, copied.taken, from_copy=True, unreachable=because)


def reach(
    host: str, service: str | None, connect: Callable[[], Agent], about: dict[str, Any] | None, *, offline_only: bool
) -> Book:
    """Asks the host, or reads the copy where that is wanted or the host cannot be reached; says which it was."""
    if offline_only:
        return offline(host, service)
    try:
        return ask(connect(), about)
    except Unreachable as error:
        return offline(host, service, error)
