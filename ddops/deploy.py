"""A deploy from the client's side: plan, stage, file the request, watch. The host does the rest."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from . import following, render
from .errors import Refused, Unreachable, UsageError
from .following import Report
from .profile import Profile
from .remote import Agent, Connect
from .render import Options, Rendered
from .site import HostEntry, Site

DRILLS = ("illegal-access", "garbage")


@dataclass(frozen=True)
class Request:
    """What a user asks of a deploy."""

    budget: int | None = None
    graphs: bool | None = None
    soak_s: float | None = None
    confirm_s: float | None = None
    first: bool = False
    force: bool = False
    drill: str | None = None
    drill_after_steps: int = 0
    drill_on_production: bool = False


@dataclass(frozen=True)
class Plan:
    """What a deploy will do, made from the host's facts; nothing was changed to make it."""

    service: str
    profile: Profile
    options: Options
    rendered: Rendered
    soak_s: float
    confirm_s: float | None
    first: bool
    force: bool
    drill_on_production: bool
    facts: dict[str, Any]

    @property
    def unchanged(self) -> bool:
        """True where the live release is already this one, and runs, and nobody insists on another."""
        live = self.facts["live"] or {}
        same = live.get("fingerprint") == self.rendered.fingerprint
        good = self.facts["known_good"] and self.facts["known_good"]["release"] == live.get("release")
        return bool(same and good and self.facts["live_runs"] and not self.force)

    def describe(self) -> dict[str, Any]:
        """Returns the plan as data."""
        known_good = self.facts["known_good"]
        load = self.facts["measured_load"]
        return {
            "service": self.service,
            "host": self.facts["hostname"],
            "profile": self.profile.name,
            "release": self.rendered.number,
            "budget": self.options.budget,
            "verify_width": render.verify_width(self.options.budget),
            "graphs": self.options.graphs,
            "drill": self.options.drill,
            "live": self.facts["live"],
            "way_back": known_good,
            "unchanged": self.unchanged,
            "soak_s": self.soak_s,
            "confirm_s": self.confirm_s,
            "last_load_s": load,
            "files": len(self.rendered.files),
        }


def options_of(profile: Profile, request: Request) -> Options:
    """Returns the release's options; raises UsageError or Refused for what this hardware cannot do."""
    budget = profile.budget.default if request.budget is None else request.budget
    if not 1 <= budget <= profile.budget.max:
        raise UsageError(
            f"budget {budget} is out of range",
            f"profile {profile.name} takes 1 to {profile.budget.max}",
            f"--budget {profile.budget.default} is its default",
        )
    graphs = profile.graphs.default if request.graphs is None else request.graphs
    if graphs and profile.graphs.refused_because:
        raise Refused(f"profile {profile.name} has no graphs", profile.graphs.refused_because, "--no-graphs")
    if request.drill is not None and request.drill not in DRILLS:
        near = difflib.get_close_matches(request.drill, DRILLS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else ""
        raise UsageError(f"unknown drill '{request.drill}'", f"known are: {', '.join(DRILLS)}", hint)
    drill = {"name": request.drill, "after_steps": request.drill_after_steps} if request.drill else None
    return Options(budget, graphs, drill)


def plan(agent: Agent, profile: Profile, site: Site, host: HostEntry, request: Request) -> Plan:
    """Makes the plan; asks the host for facts and changes nothing there."""
    options = options_of(profile, request)
    if options.drill and not host.lab and not request.drill_on_production:
        raise Refused(
            f"drill {request.drill} on a host that the site does not call a lab host",
            "a drill breaks the service on purpose",
            "--drill-on-production says that you mean it",
        )
    facts = agent.ask("facts")
    rendered = render.release(profile, site, agent.service, options, facts["next_release"])
    made = Plan(
        service=agent.service,
        profile=profile,
        options=options,
        rendered=rendered,
        soak_s=profile.soak if request.soak_s is None else request.soak_s,
        confirm_s=request.confirm_s,
        first=request.first,
        force=request.force,
        drill_on_production=request.drill_on_production,
        facts=facts,
    )
    if not facts["known_good"] and not request.first:
        raise Refused(
            f"{agent.service} on {agent.host.name} has no known-good release: there is no way back",
            "nothing was adopted and nothing was promoted yet",
            "ddops adopt UNIT, or --first to deploy with no way back",
        )
    return made


def run(
    agent: Agent, connect: Connect, made: Plan, report: Report, patience: float = following.PATIENCE_S
) -> dict[str, Any]:
    """Stages the release, files the request and watches until the host has stored the outcome."""
    report({"event": "staging", "release": made.rendered.number})
    try:
        agent.ask("install", unit=render.supervisor_unit())
        agent.ask(
            "stage",
            payload=made.rendered.archive(),
            manifest=made.rendered.manifest.decode(),
            files=len(made.rendered.files),
        )
    except Unreachable as error:
        raise Unreachable(
            f"{agent.host.name} was lost while the release was being sent",
            f"no operation was filed, the service is as it was: {error.what}; {error.why}",
            "the same command again, when the host can be reached",
        ) from None
    filed = following.file(
        agent,
        "file",
        request={
            "kind": "deploy",
            "release": made.rendered.number,
            "soak_s": made.soak_s,
            "confirm_s": made.confirm_s,
            "first": made.first,
            "force": made.force,
            "drill_anyway": made.drill_on_production,
            "by": render.requester(),
        },
    )
    report({"event": "filed", "operation": filed["operation"]})
    outcome, _ = following.follow(agent, connect, filed["operation"], report, patience)
    return outcome
