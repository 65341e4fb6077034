"""``ddops watch``."""

from __future__ import annotations

from .options import HostOption, JsonEventsOption, ServiceOption, SiteOption


def command(
    host: HostOption = None, service: ServiceOption = None, site: SiteOption = None, as_json: JsonEventsOption = False
) -> int:
    """Watch a service live, until Ctrl-C (--json: an event a line)."""
    import json
    import sys

    from .. import watching
    from . import output, target
    from .live import Live

    agent, connect = target.existing(host, site, service)
    show = Live(alive=output.alive(sys.stdout))
    try:
        for event in watching.events(agent, connect):
            output.stream(json.dumps(event)) if as_json else show(event)
    except KeyboardInterrupt:
        show.end()
    return 0
