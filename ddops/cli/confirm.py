"""``ddops confirm``."""

from __future__ import annotations

from .options import HostOption, JsonOption, ServiceOption, SiteOption


def command(
    host: HostOption = None, service: ServiceOption = None, site: SiteOption = None, as_json: JsonOption = False
) -> int:
    """Confirm a release that was deployed with --confirm, so that it is promoted."""
    from .. import render
    from . import output, target

    agent, _ = target.existing(host, site, service)
    done = agent.change("confirm", by=render.requester())
    output.document(done) if as_json else output.data(f"confirmed operation={done['operation']}")
    return 0
