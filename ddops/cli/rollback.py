"""``ddops rollback``."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import HostOption, JsonOption, PatienceOption, ServiceOption, SiteOption, seconds


def command(
    host: HostOption = None,
    to: Annotated[
        int | None, typer.Option(metavar="RELEASE", help="A promoted release, instead of known-good.")
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the right answer (exit 10).")] = False,
    patience: PatienceOption = "2m",
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Go back to known-good; end a trial that is under way."""
    from .. import rollback as operation
    from ..errors import Unreachable
    from ..exit_codes import ExitCode
    from . import output, target
    from .outcome import tell
    from .progress import Progress

    patience_s = seconds("--patience", patience)
    try:
        agent, connect = target.existing(host, site, service)
    except Unreachable as error:
        by_hand = f"/var/lib/ddops/{service or 'SERVICE'}/rollback"
        hint = "; ".join(filter(None, [error.hint, f"on the host itself, as root: {by_hand}"]))
        raise Unreachable(error.what, f"{error.why}; nothing was asked of the host", hint) from None
    done = operation.run(agent, connect, to, Progress(), wait=not no_wait, patience=patience_s)
    if no_wait:
        if as_json:
            output.document({**done, "exit_code": int(ExitCode.NOT_WAITED)})
        output.say("the host goes back by itself; nobody has checked its answers yet\n\nhint: ddops status")
        return int(ExitCode.NOT_WAITED)
    return tell("rollback", done, as_json=as_json)
