"""``ddops profile``: show the values that are in effect, and where each comes from."""

from __future__ import annotations

from typing import Any

import typer

from .options import (
    AlgorithmOption,
    BudgetOption,
    GraphsOption,
    HostOption,
    JsonOption,
    MaxRunningOption,
    ProfileArgument,
    SiteOption,
    SoakOption,
    TopkOption,
    asked,
)

app = typer.Typer(help="Hardware profiles: which there are, and what is in effect.", no_args_is_help=True)


@app.command("list")
def list_(as_json: JsonOption = False) -> int:
    """Name the profiles that ddops carries."""
    from .. import profile as profiles
    from . import output

    found = {name: profiles.load(name).description for name in profiles.names()}
    if as_json:
        output.document(found)
    else:
        for name, description in found.items():
            output.data(f"{name:14} {description}")
    return 0


@app.command("show")
def show(
    profile: ProfileArgument,
    host: HostOption = None,
    budget: BudgetOption = None,
    graphs: GraphsOption = None,
    max_running: MaxRunningOption = None,
    algorithm: AlgorithmOption = None,
    topk: TopkOption = None,
    soak: SoakOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print every value with its origin: a flag, a DDOPS_* variable, a site file, or default: the profile."""
    from .. import deploy, settings
    from . import output

    flags = asked(budget, graphs, max_running, algorithm, topk, soak)
    effective = settings.resolve(profile, site, host, flags, need_site=False)

    def reckoned() -> list[tuple[str, Any, str]]:
        """What is drafted with depends on what the site has."""
        found = deploy.reckoned(effective).items() if effective.site else ()
        return [(key, value, "of profile, site and flags") for key, value in found]

    rows = effective.rows()
    if as_json:
        output.document({key: {"value": value, "origin": origin} for key, value, origin in rows + reckoned()})
        return 0
    _show(rows)
    _show(reckoned())  # what makes them impossible is said behind them
    return 0


def _show(rows: list[tuple[str, Any, str]]) -> None:
    import json

    from . import output

    for key, value, origin in rows:
        output.data(f"{key}: {json.dumps(value, ensure_ascii=False)}  {output.paint('# ' + origin, 'dim')}")
