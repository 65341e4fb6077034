"""``ddops deploy``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import HostOption, JsonOption, PatienceOption, ServiceOption, SiteOption, seconds

if TYPE_CHECKING:
    from ..deploy import Plan

NAME = "deploy"


def command(
    profile: Annotated[
        str, typer.Argument(metavar="PROFILE", help="The hardware profile: a name, or a .yaml file of your own.")
    ],
    host: HostOption = None,
    budget: Annotated[
        int | None, typer.Option(metavar="N", help="Draft-tree nodes; the verify width is N + 1.")
    ] = None,
    graphs: Annotated[bool | None, typer.Option("--graphs/--no-graphs", help="CUDA graphs on or off.")] = None,
    soak: Annotated[str | None, typer.Option(metavar="TIME", help="Watch for so long before promoting.")] = None,
    first: Annotated[bool, typer.Option("--first", help="Deploy although there is no way back.")] = False,
    confirm: Annotated[
        str | None, typer.Option(metavar="TIME", help="Roll back unless 'ddops confirm' comes in time.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Deploy what is live already, what was rolled back before, or beside a bad known-good."
        ),
    ] = False,
    drill: Annotated[
        str | None, typer.Option(metavar="NAME", help="Break the release on purpose: illegal-access or garbage.")
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
    from .. import profile as profiles
    from .. import site as sites
    from ..errors import UsageError
    from . import output, target
    from .outcome import tell
    from .progress import Progress

    wanted = profiles.load(profile)
    request = operation.Request(
        budget=budget,
        graphs=graphs,
        soak_s=None if soak is None else seconds("--soak", soak),
        confirm_s=None if confirm is None else seconds("--confirm", confirm),
        first=first,
        force=force,
        drill=drill,
        drill_after_steps=drill_after,
        drill_on_production=drill_on_production,
    )
    patience_s = seconds("--patience", patience)
    if request.soak_s == 0:
        raise UsageError("a soak of no time sees no fault", "--soak 0", f"--soak {wanted.soak:g}s is the profile's")
    if request.confirm_s == 0:
        raise UsageError("a confirmation in no time cannot come", "--confirm 0", "--confirm 10m")
    if drill_after and not drill:
        raise UsageError("--drill-after without a drill", "", "--drill illegal-access or --drill garbage")
    operation.options_of(wanted, request)
    at_home = sites.load(site)
    name, entry = sites.choose(at_home, host)
    connect = target.connector(name, entry, wanted.service if service is None else service)
    output.say(output.paint(f"connecting to {name}", "dim"))
    agent = connect()
    made = operation.plan(agent, wanted, at_home, entry, request)
    if dry_run and as_json:
        output.document({"plan": made.describe()})
    else:
        _show(made, output.data if dry_run else output.say)
    if dry_run:
        return 0
    if made.unchanged:
        return tell("deploy", _unchanged(made), as_json=as_json)
    if sys.stdin.isatty() and sys.stderr.isatty() and not yes and not typer.confirm("deploy?", err=True):
        output.say("nothing was changed")
        return 0
    return tell("deploy", operation.run(agent, connect, made, Progress(), patience_s), as_json=as_json)


def _show(made: Plan, say: Callable[[str], None]) -> None:
    from .output import paint

    plan = made.describe()
    live, back = plan["live"], plan["way_back"]
    say(f"{paint('plan', 'bold')}: {plan['service']} on {plan['host']}, release {plan['release']}")
    say(f"  budget {plan['budget']}, verify width {plan['verify_width']}, graphs {'on' if plan['graphs'] else 'off'}")
    say(f"  live     {_name(live)}")
    say(f"  way back {_name(back) if back else paint('none: this is a first release', 'red')}")
    if plan["drill"]:
        say(f"  {paint('drill', 'yellow')}    {plan['drill']['name']}: this release breaks on purpose")
    load = f"about {plan['last_load_s']:.0f} s of load" if plan["last_load_s"] else "a load that was never measured"
    say(f"  no service while it loads and passes its gates: {load}; then a soak of {plan['soak_s']:g} s")


def _name(release: dict[str, Any] | None) -> str:
    if not release:
        return "none"
    budget = f", budget {release['budget']}" if "budget" in release else ", adopted"
    return f"release {release['release']} ({release['unit']}{budget})"


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
        "steps": [],
        "seconds": 0.0,
        "host": {
            "live": facts["live"]["release"],
            "known_good": facts["known_good"]["release"],
            "boots": facts["live"]["unit"],
        },
    }
