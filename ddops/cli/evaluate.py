"""``ddops eval``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import completing
from .options import HostOption, JsonOption, ServiceOption, SiteOption


def command(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE", help="smoke, lossless, coding, garbage or load.", autocompletion=completing.suites
        ),
    ],
    host: HostOption = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Whose thresholds, instead of the host's profile.",
            autocompletion=completing.profiles,
        ),
    ] = None,
    problems: Annotated[
        Path | None, typer.Option(metavar="PATH", help="coding: your own problems, a YAML file or a folder.")
    ] = None,
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Put a suite to what serves now, on its host; exit 11 if it is not passed."""
    from .. import evaluate as operation
    from ..exit_codes import ExitCode
    from . import output, reading, target

    reading.suite(suite, problems)
    settings = operation.settings_of(suite, target.profile(host, site, profile), problems)
    agent, _ = target.existing(host, site, service)
    found = operation.run(agent, suite, settings, _told)
    if found["not_kept"]:
        output.say(f"{output.paint('warning:', 'yellow')} the ledger does not hold this: {found['not_kept']}")
    code = ExitCode.OK if found["passed"] else ExitCode.NOT_PASSED
    if as_json:
        output.document({**found, "exit_code": int(code)})
    else:
        _show(found)
    return int(code)


def _told(event: dict[str, Any]) -> None:
    from .output import paint, say

    if event["event"] == "progress":
        say(paint(f"  {event['text']}", "dim"))


def _show(found: dict[str, Any]) -> None:
    import sys

    from .output import data, paint

    word = paint("passed", "green", sys.stdout) if found["passed"] else paint("NOT PASSED", "red", sys.stdout)
    data(f"{found['suite']} of release {found['release']['release']}: {word}, after {found['seconds']:.0f} s")
    for name, value in found["evidence"].items():
        if isinstance(value, (int, float, str)):
            data(f"  {name:14} {value}")
    for problem in found["problems"]:
        data(f"  {paint('problem', 'red', sys.stdout):14} {problem}")
