"""``ddops deploy``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import completing
from .options import (
    AlgorithmOption,
    BudgetOption,
    GraphsOption,
    HostOption,
    JsonOption,
    MaxRunningOption,
    PatienceOption,
    ProfileArgument,
    ServiceOption,
    SiteOption,
    SoakOption,
    TopkOption,
    asked,
    seconds,
)

if TYPE_CHECKING:
    from ..deploy import Plan


def command(
    profile: ProfileArgument,
    host: HostOption = None,
    budget: BudgetOption = None,
    graphs: GraphsOption = None,
    max_running: MaxRunningOption = None,
    algorithm: AlgorithmOption = None,
    topk: TopkOption = None,
    soak: SoakOption = None,
    first: Annotated[bool, typer.Option("--first", help="Deploy although there is no way back.")] = False,
    confirm: Annotated[
        str | None, typer.Option(metavar="TIME", help="Roll back unless 'ddops confirm' comes in time.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Deploy what is live already, what is proven bad here, or beside a bad known-good."
        ),
    ] = False,
    accept_slower: Annotated[
        bool, typer.Option("--accept-slower", help="Promote it although it is slower than known-good.")
    ] = False,
    drill: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Break the release on purpose: illegal-access or garbage.",
            autocompletion=completing.drills,
        ),
    ] = None,
    drill_after: Annotated[int, typer.Option(metavar="STEPS", min=0, help="Decode steps before the drill.")] = 0,
    drill_on_production: Annotated[
        bool, typer.Option("--drill-on-production", help="Allow a drill on a host that is no lab host.")
    ] = False,
    patience: PatienceOption = "2m",
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Try a release: gate it, watch it, promote it, or be back on known-good."""
    from .. import deploy as operation
    from .. import settings
    from ..errors import UsageError
    from . import output, planned, target
    from .agreeing import agreed
    from .outcome import tell
    from .progress import Progress

    effective = settings.resolve(profile, site, host, asked(budget, graphs, max_running, algorithm, topk, soak))
    request = operation.Request(
        asked=effective.asked,
        confirm_s=None if confirm is None else seconds("--confirm", confirm),
        first=first,
        force=force,
        drill=drill,
        drill_after_steps=drill_after,
        drill_on_production=drill_on_production,
        accept_slower=accept_slower,
    )
    patience_s = seconds("--patience", patience)
    if request.asked.soak == 0:
        raise UsageError(
            "a soak of no time sees no fault", "--soak 0", f"--soak {effective.profile.soak:g}s is the profile's"
        )
    if request.confirm_s == 0:
        raise UsageError("a confirmation in no time cannot come", "--confirm 0", "--confirm 10m")
    if drill_after and not drill:
        raise UsageError("--drill-after without a drill", "", "--drill illegal-access or --drill garbage")
    name, entry, at_home = effective.place()
    operation.options_of(effective.profile, at_home, request)
    connect = target.connector(name, entry, effective.service(service))
    output.say(output.paint(f"connecting to {name}", "dim"))
    agent = connect()
    made = operation.plan(agent, effective.profile, at_home, entry, request, compare=dry_run)
    if dry_run and as_json:
        output.document({"plan": made.describe()})
    else:
        planned.show(made, output.data if dry_run else output.say)
    if dry_run:
        return 0
    if made.unchanged:
        return tell("deploy", _unchanged(made), as_json=as_json)
    if not agreed("deploy?", made.describe(), yes=yes, as_json=as_json):
        return 0
    return tell("deploy", operation.run(agent, connect, made, Progress(), patience_s), as_json=as_json)


def _unchanged(made: Plan) -> dict[str, Any]:
    facts = made.facts
    return {
        "outcome": "unchanged",
        "kind": "deploy",
        "reason": None,
        "release": facts["live"],
        "previous": facts["known_good"],
        "verdicts": [],
        "faults": [],
        "noticed": [],
        "steps": [],
        "seconds": 0.0,
        "host": {
            "live": facts["live"]["release"],
            "known_good": facts["known_good"]["release"],
            "boots": facts["live"]["unit"],
        },
    }
