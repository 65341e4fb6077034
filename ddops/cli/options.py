"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import durations
from . import completing

if TYPE_CHECKING:
    from ..settings import Asked

ProfileArgument = Annotated[
    str,
    typer.Argument(
        metavar="PROFILE",
        help="The hardware profile: a name, or a .yaml file of your own.",
        autocompletion=completing.profiles,
    ),
]
HostOption = Annotated[
    str | None,
    typer.Option(
        "--host", metavar="NAME", help="The host; needed where the site has several.", autocompletion=completing.hosts
    ),
]
SiteOption = Annotated[
    Path | None, typer.Option("--site", metavar="FILE", help="The site file, instead of the one that is found.")
]
ServiceOption = Annotated[
    str | None, typer.Option("--service", metavar="NAME", help="The service; needed where the host has several.")
]
PatienceOption = Annotated[
    str,
    typer.Option(
        "--patience", metavar="TIME", help="Look so long for a host lost meanwhile (then exit 6; it goes on)."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
JsonEventsOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout: an event a line.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout: a line a cell, then the result.")]

OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Ask no host: read the copy that is kept here of its ledger.")
]

BudgetOption = Annotated[
    int | None, typer.Option("--budget", metavar="N", help="Draft-tree nodes; the verify width is N + 1.")
]
GraphsOption = Annotated[bool | None, typer.Option("--graphs/--no-graphs", help="CUDA graphs on or off.")]
MaxRunningOption = Annotated[
    int | None, typer.Option("--max-running", metavar="N", help="Requests at once; more than the ceiling is refused.")
]
AlgorithmOption = Annotated[
    str | None, typer.Option("--algorithm", metavar="NAME", help="What drafts the tree: one that the profile lists.")
]
TopkOption = Annotated[
    int | None, typer.Option("--topk", metavar="K", help="DDTREE: candidates a position of the drafter's block.")
]
SoakOption = Annotated[str | None, typer.Option("--soak", metavar="TIME", help="Watch for so long before promoting.")]


def seconds(option: str, text: str) -> float:
    """Returns a time such as 90, 60s, 10m or 1h in seconds; raises UsageError for anything else."""
    from ..errors import UsageError

    try:
        return durations.seconds(text)
    except ValueError:
        why = "a number is wanted, in seconds or with s, m or h"
        raise UsageError(f"{option} '{text}' is no time", why, "write 90, 60s, 10m or 1h") from None


def asked(
    budget: int | None,
    graphs: bool | None,
    max_running: int | None,
    algorithm: str | None,
    topk: int | None,
    soak: str | None = None,
) -> Asked:
    """Returns what the flags ask for; raises UsageError for a soak that is no time."""
    from ..settings import Asked

    soak_s = None if soak is None else seconds("--soak", soak)
    return Asked(budget, graphs, max_running, algorithm, soak_s, topk)
