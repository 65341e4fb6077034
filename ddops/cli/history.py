"""``ddops history``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .options import HostOption, JsonOption, OfflineOption, ServiceOption, SiteOption


def command(
    host: HostOption = None,
    last: Annotated[int, typer.Option("--last", "-n", metavar="N", min=1, help="So many operations.")] = 20,
    offline: OfflineOption = False,
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show what was done to a service, and how it ended."""
    from . import booked, output

    book = booked.read(host, site, service, None, offline_only=offline)
    operations = book.operations()[-last:]
    if as_json:
        output.document({**book.as_json(), "operations": operations})
        return booked.end(book)
    output.data(f"{'op':>3} {'ended (UTC)':16} {'what':9} {'release':8} {'budget':>6} {'outcome':15} reason")
    for operation in operations:
        output.row(_line(operation))
    return booked.end(book)


def _line(operation: dict[str, Any]) -> str:
    release = operation.get("release") or {}
    number = release.get("release")
    budget = release.get("budget", "-")
    drill = release.get("drill") or {}
    reason = (operation.get("reason") or {}).get("what", "")
    if drill:
        reason = f"[drill {drill['name']}] {reason}"
    ended = operation["ended"][:16].replace("T", " ")
    return (
        f"{operation['operation']:>3} {ended:16} {operation['kind']:9} "
        f"{'-' if number is None else number!s:8} {budget!s:>6} {operation['outcome']:15} {reason}"
    )
