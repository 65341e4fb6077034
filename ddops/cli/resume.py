"""``ddops resume``."""

from __future__ import annotations

from .options import HostOption, JsonOption, ServiceOption, SiteOption


def command(
    host: HostOption = None, service: ServiceOption = None, site: SiteOption = None, as_json: JsonOption = False
) -> int:
    """End a pause: the supervisor acts on incidents again."""
    from . import output, target

    agent, _ = target.existing(host, site, service)
    record = agent.change("resume")
    output.document(record) if as_json else output.data(
        f"resumed, was paused by={record['by']} since={record['since']}"
    )
    return 0
