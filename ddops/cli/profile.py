"""``ddops profile``: show the values that are in effect, and where each comes from."""

from __future__ import annotations

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
    """Print every value with its origin: a flag, a DDOPS_* variable, a site file, or the profile."""
    import json

    from .. import settings
    from . import output

    flags = asked(budget, graphs, max_running, algorithm, topk, soak)
    rows = settings.resolve(profile, site, host, flags, need_site=False).rows()
    if as_json:
        output.document({key: {"value": value, "origin": origin} for key, value, origin in rows})
        return 0
    for key, value, origin in rows:
        output.data(f"{key}: {json.dumps(value, ensure_ascii=False)}  {output.paint('# ' + origin, 'dim')}")
    return 0
