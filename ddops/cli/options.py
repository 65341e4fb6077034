"""The options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

HostOption = Annotated[
    str | None, typer.Option("--host", metavar="NAME", help="The host; needed where the site has several.")
]
SiteOption = Annotated[
    Path | None, typer.Option("--site", metavar="FILE", help="The site file, instead of the one that is found.")
]
ServiceOption = Annotated[
    str | None, typer.Option("--service", metavar="NAME", help="The service; needed where the host has several.")
]
PatienceOption = Annotated[
    str,
    typer.Option("--patience", metavar="TIME", help="Look for a lost host for so long (then exit 6; it goes on)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(option: str, text: str) -> float:
    """Returns a time such as 90, 60s, 10m or 1h in seconds; raises UsageError for anything else."""
    from ..errors import UsageError

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text, re.ASCII)
    if not found:
        why = "a number is wanted, in seconds or with s, m or h"
        raise UsageError(f"{option} '{text}' is no time", why, "write 90, 60s, 10m or 1h")
    return float(found[1]) * _UNITS[found[2]]
