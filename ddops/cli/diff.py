"""``ddops diff``."""

from __future__ import annotations

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
    host: HostOption = None,
    budget: BudgetOption = None,
    graphs: GraphsOption = None,
    max_running: MaxRunningOption = None,
    algorithm: AlgorithmOption = None,
    topk: TopkOption = None,
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show a deploy's plan and what it changes against the live release, line by line; change nothing."""
    from .. import deploy as operation
    from .. import settings
    from . import output, planned, target

    effective = settings.resolve(profile, site, host, asked(budget, graphs, max_running, algorithm, topk))
    request = operation.Request(asked=effective.asked, first=True, force=True)
    name, entry, at_home = effective.place()
    operation.options_of(effective.profile, at_home, request)
    output.asking(name)
    agent = target.connector(name, entry, effective.service(service))()
    made = operation.plan(agent, effective.profile, at_home, entry, request, compare=True)
    output.document({"plan": made.describe()}) if as_json else planned.show(made, output.data)
    return 0
