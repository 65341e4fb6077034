"""``ddops render``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import (
    AlgorithmOption,
    BudgetOption,
    GraphsOption,
    HostOption,
    JsonOption,
    MaxRunningOption,
    ProfileArgument,
    ServiceOption,
    SiteOption,
    TopkOption,
    asked,
)


def command(
    profile: ProfileArgument,
    output_folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="A folder that is not there yet, or is empty.")
    ],
    host: HostOption = None,
    budget: BudgetOption = None,
    graphs: GraphsOption = None,
    max_running: MaxRunningOption = None,
    algorithm: AlgorithmOption = None,
    topk: TopkOption = None,
    number: Annotated[int, typer.Option("--release", metavar="N", min=1, help="The release's number.")] = 1,
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write every file of a release into a folder; no host is asked."""
    from .. import rendering, settings
    from . import output

    effective = settings.resolve(profile, site, host, asked(budget, graphs, max_running, algorithm, topk))
    made = rendering.write(effective, effective.service(service), number, output_folder)
    if as_json:
        output.document(made.as_json())
        return 0
    output.say(made.words)
    for name, reason in made.passed_over:
        output.say(f"{output.paint('warning:', 'yellow')} not {name}: {reason}; {made.algorithm} drafts the tree")
    for entry in made.known:
        if entry.outcome == "bad":
            where = "this stack" if entry.same_stack else f"another {', '.join(entry.other)}"
            output.say(f"{output.paint('warning:', 'yellow')} bad on {where}: {entry.text}")
    for line in made.limits.lines():
        output.say(line)
    for path in made.paths:
        output.data(str(path))
    return 0
