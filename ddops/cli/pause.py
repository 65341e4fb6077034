"""``ddops pause``."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import HostOption, JsonOption, ServiceOption, SiteOption


def command(
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; whoever looks is told.")] = "",
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long; until resume if left out.")
    ] = None,
    host: HostOption = None,
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Stop automatic action after promotion; incidents are still told, and a deploy is refused."""
    from .. import render
    from ..durations import until
    from . import output, target
    from .options import seconds

    time = None if for_ is None else seconds("--for", for_)
    agent, _ = target.existing(host, site, service)
    record = agent.change("pause", by=render.requester(), reason=reason, seconds=time)
    output.document(record) if as_json else output.data(f"paused by={record['by']} {until(record['until'])}")
    if was := record.get("replaces"):
        output.say(f"it replaces the pause by {was['by']} since {was['since']}: {was['reason'] or 'no reason given'}")
    if time is None:
        output.say("nothing is done by itself until then\n\nhint: ddops resume")
    return 0
