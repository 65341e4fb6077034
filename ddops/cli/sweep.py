"""``ddops sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import completing
from .options import HostOption, JsonLinesOption, PatienceOption, ProfileArgument, ServiceOption, SiteOption, seconds


def command(
    profile: ProfileArgument,
    host: HostOption = None,
    budgets: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="4,8,12 or 4-64:4. [default with --bisect: all of the profile's]"),
    ] = None,
    graphs: Annotated[
        str | None, typer.Option(metavar="WHICH", help="on, off or both. [default: the profile's]")
    ] = None,
    max_running: Annotated[
        str | None, typer.Option("--max-running", metavar="LIST", help="Requests at once. [default: the profile's]")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(metavar="LIST", help="What drafts the tree. [default: as a deploy chooses]")
    ] = None,
    topk: Annotated[
        str | None, typer.Option(metavar="LIST", help="DDTREE: candidates a position. [default: the profile's]")
    ] = None,
    concurrency: Annotated[
        str | None, typer.Option(metavar="LIST", help="Streams at a time. [default: of 1,4,16 what runs at once]")
    ] = None,
    requests: Annotated[int, typer.Option(min=1, metavar="N", help="Requests of a run.")] = 16,
    tokens: Annotated[int, typer.Option(min=32, metavar="N", help="Tokens of each answer.")] = 128,
    repeats: Annotated[int, typer.Option(min=1, metavar="N", help="Runs at each concurrency.")] = 3,
    bisect: Annotated[bool, typer.Option("--bisect", help="Only look for the largest budget that passes.")] = False,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the study is kept; one that is there goes on.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew; else an unfinished study goes on.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Try larger budgets after one that failed, too.")
    ] = False,
    max_failures: Annotated[
        int | None, typer.Option("--max-failures", min=1, metavar="N", help="Stop after so many that failed.")
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Begin no cell that would end later: 6h.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Try what is proven bad here, too.")] = False,
    drill: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Break large budgets on purpose: illegal-access or garbage.",
            autocompletion=completing.drills,
        ),
    ] = None,
    drill_above: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Those above it. [default: known-good's budget]")
    ] = None,
    drill_after: Annotated[int, typer.Option(metavar="STEPS", min=0, help="Decode steps before the drill.")] = 0,
    drill_on_production: Annotated[
        bool, typer.Option("--drill-on-production", help="Allow a drill on a host that is no lab host.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a row for each cell and concurrency.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: FILE.svg or FILE.png.")] = None,
    patience: PatienceOption = "2m",
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonLinesOption = False,
) -> int:
    """Measure budgets one after another, back on known-good after each; nobody is served in that time."""
    from .. import settings
    from ..sweep import asking, conducting, picture, planning
    from ..sweep.stopping import Limits
    from ..sweep.trying import Setup
    from . import output, reading, sweeping, swept, target
    from .agreeing import agreed
    from .progress import Progress

    effective = settings.resolve(profile, site, host, settings.Asked())
    name, entry, at_home = effective.place()
    of_profile = effective.profile
    grid = asking.grid(of_profile, effective.asked, budgets, graphs, algorithm, max_running, topk, bisects=bisect)
    cells, ruled_out = asking.cells_of(of_profile, at_home, grid)
    wanted = asking.measure(cells, concurrency, requests, tokens, repeats)
    planted = asking.drill(drill, drill_above, drill_after, on_production=drill_on_production)
    limits = Limits(max_failures, None if for_ is None else seconds("--for", for_), keep_going or bisect)
    reading.writable("--csv", csv)
    reading.writable("--plot", plot)
    if plot:
        picture.check(plot)
    of = effective.service(service)
    connect = target.connector(name, entry, of)
    patience_s = seconds("--patience", patience)
    setup = Setup(of_profile, at_home, entry, connect, wanted, None, planted, force, patience_s)
    output.say(output.paint(f"connecting to {name}", "dim"))
    made = planning.plan(setup, name, of, cells, ruled_out, bisects=bisect)
    if dry_run and as_json:
        output.document({"plan": made.describe()})
    else:
        sweeping.show_plan(made, output.data if dry_run else output.say, limits.seconds)
    if dry_run:
        return 0
    if not agreed("sweep?", made.describe(), yes=yes, as_json=as_json):
        return 0
    shown = sweeping.Sweeping(Progress(), made, as_json=as_json)
    found, ended = conducting.conduct(made, study, limits, shown, fresh=fresh)
    return swept.tell(found, ended, csv, plot, shown.failed, as_json=as_json)
