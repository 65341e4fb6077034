"""``ddops logs``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

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
    from .. import watching
    from . import output, target

    agent, connect = target.existing(host, site, service)
    if follow:
        for event in watching.lines(agent, connect, release, last):
            if event["event"] == "entry":
                output.stream(json.dumps(_fields(event)) if as_json else _line(event))
            elif event["event"] == "lost":
                output.say(f"lost: {event['what']}: {event['why']}; it is looked for again")
            elif event["event"] == "gap":
                output.say("some entries are missing here: the host's journal has them no more")
        return 0
    asked = agent.events("logs", release=release, last=last, follow=False, after="")
    entries = [_fields(event) for event in asked if event["event"] == "entry"]
    if as_json:
        output.document({"service": agent.service, "entries": entries})
        return 0
    for entry in entries:
        output.data(_line(entry))
    if not entries:
        of = f"release {release} of {agent.service}" if release is not None else agent.service
        output.say(f"the host's journal has no line of {of}\n\nhint: ddops doctor says how it is kept")
    return 0


def _fields(event: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in event.items() if k != "event"}


def _line(entry: dict[str, Any]) -> str:
    time = datetime.fromtimestamp(entry["time_us"] / 1e6, UTC).isoformat(timespec="milliseconds")
    return f"{time.removesuffix('+00:00')}Z {entry['identifier']}[{entry['pid']}] {entry['message']}"
