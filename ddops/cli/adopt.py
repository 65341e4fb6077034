"""``ddops adopt``."""

from __future__ import annotations

from typing import Annotated

import typer

from . import completing
from .options import HostOption, JsonOption, PatienceOption, ServiceOption, SiteOption, seconds


def command(
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="The running hand-made unit.")],
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE",
            help="The hardware profile with its gates; needed where the site names none.",
            autocompletion=completing.profiles,
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="Where it serves, if not in its arguments.")
    ] = None,
    patience: PatienceOption = "2m",
    host: HostOption = None,
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make a running hand-made unit release 0: the way back of the first deploy."""
    from .. import adopt as operation
    from .. import profile as profiles
    from .. import settings
    from .. import site as sites
    from ..errors import UsageError
    from . import output, target
    from .outcome import tell
    from .progress import Progress

    patience_s = seconds("--patience", patience)
    named = profile or sites.choose(sites.load(site), host)[1].profile
    if not named:
        raise UsageError("which profile?", f"known are: {', '.join(profiles.names())}", "--profile NAME")
    effective = settings.resolve(named, site, host, settings.Asked())
    name, entry, at_home = effective.place()
    connect = target.connector(name, entry, effective.service(service))
    output.say(output.paint(f"connecting to {name}", "dim"))
    done = operation.run(connect(), connect, effective.profile, at_home, unit, port, Progress(), patience_s)
    return tell("adopt", done, as_json=as_json)
