"""``ddops doctor``."""

from __future__ import annotations

from .options import HostOption, JsonOption, SiteOption


def command(host: HostOption = None, site: SiteOption = None, as_json: JsonOption = False) -> int:
    """Look at all that a deploy stands on, on each host or one; change nothing; exit 9 if anything is bad."""
    from .. import doctor as operation
    from . import examined, output, passphrase

    found = operation.examine(site, host, lambda name: output.say(f"asking {name}"), passphrase.ask)
    return examined.show(found, as_json=as_json)
