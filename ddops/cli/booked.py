"""A host's ledger as a command gets it, and where it is from as people are told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..exit_codes import ExitCode
from . import output, target

if TYPE_CHECKING:
    from ..ledger import Book
    from ..remote import Agent


def read(
    host: str | None, site: Path | None, service: str | None, about: dict[str, Any] | None, *, offline_only: bool
) -> Book:
    """Returns the ledger as the host tells it, or as the copy here has it; says so where it is the copy."""
    from .. import ledger

    name, _ = target.entry(host, site)
    service = service or os.environ.get("DDOPS_SERVICE")

    def connect() -> Agent:
        return target.existing(host, site, service)[0]

    book = ledger.reach(name, service, connect, about, offline_only=offline_only)
    for warning in book.warnings:
        output.say(f"{output.paint('warning:', 'yellow')} {warning}")
    if book.from_copy:
        output.say(f"{output.paint('copy:', 'yellow')} as {name} told it {_ago(book.age_s)} ago, {_time(book)} UTC")
    return book


def end(book: Book) -> int:
    """Says why the host was not asked, if it should have been; returns the exit code."""
    if book.unreachable is None:
        return int(ExitCode.OK)
    error = book.unreachable
    return output.error(error.what, error.why, "", error.exit_code, as_json=False)


def _time(book: Book) -> str:
    return book.asked.strftime("%Y-%m-%d %H:%M")


def _ago(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
