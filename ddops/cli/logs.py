"""``ddops logs``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from .options import HostOption, JsonOption, ServiceOption, SiteOption


def command(
    host: HostOption = None,
    release: Annotated[int | None, typer.Option(metavar="N", help="Only this release's engine.")] = None,
    last: Annotated[int, typer.Option("--last", "-n", metavar="N", min=1, help="So many lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show the journal of a service: its engines and its supervisor (--follow --json: a document a line)."""
    from datetime import UTC, datetime

    from . import output, target

    agent, _ = target.existing(host, site, service)
    entries = (
        {k: v for k, v in event.items() if k != "event"}
        for event in agent.events("logs", release=release, last=last, follow=follow)
        if event["event"] == "entry"
    )
    if as_json and not follow:
        output.document({"service": agent.service, "entries": list(entries)})
        return 0
    for entry in entries:
        if as_json:
            output.data(json.dumps(entry))
        else:
            time = datetime.fromtimestamp(entry["time_us"] / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]
            output.data(f"{time} {entry['identifier']}[{entry['pid']}] {entry['message']}")
    return 0
