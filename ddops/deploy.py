"""A deploy from the client's side: plan, stage, file the request, watch. The host does the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import diffs, downtime, drafting, evidence, following, limits, render
from .difference import Difference, against
from .errors import Refused, Unreachable, UsageError, did_you_mean
from .evidence import Known
from .following import Report
from .profile import Profile
from .remote import Agent, Connect
from .render import Options, Rendered
from .settings import Asked, Effective
from .site import HostEntry, Site

DRILLS = ("illegal-access", "garbage")
_COMBINATION = ("profile", "budget", "graphs", "algorithm", "topk", "max_running", "overlay")


@dataclass(frozen=True)
class Request:
    """What a user asks of a deploy.

    With ``measure`` (concurrency: a list, requests, tokens, repeats) a trial that passes its gates is measured, never
    opened to users, and known-good is back after it.
    """

    asked: Asked = field(default_factory=Asked)
    confirm_s: float | None = None
    first: bool = False
    force: bool = False
    drill: str | None = None
    drill_after_steps: int = 0
    drill_on_production: bool = False
    accept_slower: bool = False
    measure: dict[str, Any] | None = None


@dataclass(frozen=True)
class Plan:
    """What a deploy will do, made from the host's facts; nothing was changed to make it."""

    service: str
    profile: Profile
    options: Options
    rendered: Rendered
    passed_over: tuple[tuple[str, str], ...]
    known: list[Known]
    soak_s: float
    request: Request
    facts: dict[str, Any]
    differences: list[Difference] | None
    notify: dict[str, Any]

    @property
    def unchanged(self) -> bool:
        """True where the live release is already this one, and runs, and nobody insists on another."""
        live = self.facts["live"] or {}
        same = live.get("fingerprint") == self.rendered.fingerprint
        good = self.facts["known_good"] and self.facts["known_good"]["release"] == live.get("release")
        return bool(same and good and self.facts["live_runs"] and not self.request.force)

    def describe(self) -> dict[str, Any]:
        """Returns the plan as data."""
        return {
            "service": self.service,
            "host": self.facts["hostname"],
            "profile": self.profile.name,
            "release": self.rendered.number,
            "budget": self.options.budget,
            "verify_width": self.options.limits.width,
            "graphs": self.options.graphs,
            "algorithm": self.options.drafting.algorithm,
            "topk": self.options.topk,
            "passed_over": [{"algorithm": name, "reason": reason} for name, reason in self.passed_over],
            "limits": self.options.limits.as_json(),
            "evidence": [entry.as_json() for entry in self.known],
            "overlay": self.rendered.as_manifest()["overlay"],
            "stack": self.facts["stack"],
            "ledger_problem": self.facts["ledger_problem"],
            "exposure": self.facts["exposure"],
            "drill": self.options.drill,
            "live": self.facts["live"],
            "way_back": self.facts["known_good"],
            "unchanged": self.unchanged,
            "soak_s": self.soak_s,
            "confirm_s": self.request.confirm_s,
            "last_load_s": self.facts["measured_load"],
            "no_service": self.no_service().as_json(),
            "files": len(self.rendered.files),
            "differences": None if self.differences is None else [d.as_json() for d in self.differences],
        }

    def no_service(self) -> downtime.Downtime:
        """Returns how long nobody will be served."""
        steps, load = self.facts["measured_steps"], self.facts["measured_load"]
        return downtime.predict(steps, load, self.profile.gates.suites, records=bool(self.facts["records"]))


def options_of(profile: Profile, site: Site, request: Request) -> tuple[Options, tuple[tuple[str, str], ...]]:
    """Returns the release's options, and the algorithms that were passed over with the reasons.

    Raises UsageError or Refused for what this hardware, the overlay or the site cannot do.
    """
    asked = request.asked
    budget = profile.budget.default if asked.budget is None else asked.budget
    if not 1 <= budget <= profile.budget.max:
        raise UsageError(
            f"budget {budget} is out of range",
            f"profile {profile.name} takes 1 to {profile.budget.max}",
            f"--budget {profile.budget.default} is its default",
        )
    graphs = profile.graphs.default if asked.graphs is None else asked.graphs
    if graphs and profile.graphs.refused_because:
        raise Refused(f"profile {profile.name} has no graphs", profile.graphs.refused_because, "--no-graphs")
    if request.drill is not None:
        must_be_a_drill(request.drill)
    drill = {"name": request.drill, "after_steps": request.drill_after_steps} if request.drill else None
    choice = drafting.choose(profile, site, budget, asked.algorithm)
    computed = limits.compute(profile, choice.drafting, budget, asked.max_running)
    topk = drafting.candidates(choice.drafting, budget, asked.topk)
    return Options(computed, graphs, choice.drafting, topk, drill), choice.passed_over


def must_be_a_drill(name: str) -> None:
    """Raises UsageError, naming the nearest one, for a drill that is none."""
    if name not in DRILLS:
        raise UsageError(f"unknown drill '{name}'", f"known are: {', '.join(DRILLS)}", did_you_mean(name, DRILLS))


def plan(
    agent: Agent, profile: Profile, site: Site, host: HostEntry, request: Request, *, compare: bool = False
) -> Plan:
    """Makes the plan; asks the host for facts, and with ``compare`` for the live release's texts. Changes nothing."""
    options, passed_over = options_of(profile, site, request)
    if options.drill and not host.lab and not request.drill_on_production:
        raise Refused(
            f"drill {request.drill} on a host that the site does not call a lab host",
            "a drill breaks the service on purpose",
            "--drill-on-production says that you mean it",
        )
    agent.begin()  # while the release is rendered
    draft = render.release(profile, site, agent.service, options, 0)
    facts = agent.ask("facts", about=_about(profile, site, draft))
    if not facts["known_good"] and not request.first:
        other = f"ddops deploy {host.profile}, as the site file says; else " if _of_another(profile, host) else ""
        raise Refused(
            f"{agent.service} on {agent.host.name} has no known-good release: there is no way back",
            "nothing was adopted and nothing was promoted yet",
            f"{other}ddops adopt UNIT, or --first to deploy with no way back",
        )
    known = evidence.of_profile(profile, options) + evidence.of_host(facts["evidence"])
    if not request.force and not options.drill:
        evidence.require(known)
    asked = request.asked
    return Plan(
        service=agent.service,
        profile=profile,
        options=options,
        rendered=render.release(profile, site, agent.service, options, facts["next_release"]),
        passed_over=passed_over,
        known=known,
        soak_s=profile.soak if asked.soak is None else asked.soak,
        request=request,
        facts=facts,
        differences=_differences(agent, profile, site, options) if compare else None,
        notify=site.notify.model_dump(),
    )


def reckoned(effective: Effective) -> dict[str, Any]:
    """Returns what profile, site and flags come to; raises what a deploy of them is refused with before it connects."""
    _, _, site = effective.place()
    options, _ = options_of(effective.profile, site, Request(asked=effective.asked))
    limits = options.limits
    found = {"algorithm": options.drafting.algorithm, "verify_width": limits.width, "max_running": limits.max_running}
    return {f"reckoned.{key}": value for key, value in found.items()}


def _of_another(profile: Profile, host: HostEntry) -> bool:
    """Says whether the site gives the host another profile than this one."""
    return bool(host.profile) and Path(str(host.profile)).stem != profile.name


def stands_on(site: Site) -> dict[str, Any]:
    """Returns what a release of this site would stand on: interpreter, model and drafter, and the overlay's sha256."""
    patches = diffs.of(site)
    named = {"python": site.engine.python, "model": site.model, "drafter": site.drafter}
    return {**named, "overlay": diffs.identity(site.overlay, patches)}


def _about(profile: Profile, site: Site, draft: Rendered) -> dict[str, Any]:
    manifest = draft.as_manifest()
    return {
        "combination": {k: manifest[k] for k in _COMBINATION},
        **{name: manifest["engine"][name] for name in ("python", "model", "drafter")},
        "gates": manifest["gates"],
        "unit": draft.files[draft.unit].decode(),
    }


def _differences(agent: Agent, profile: Profile, site: Site, options: Options) -> list[Difference]:
    live = agent.ask("texts")
    if live["release"] is None:
        return []
    return against(live, render.release(profile, site, agent.service, options, live["release"]))


def run(
    agent: Agent, connect: Connect, made: Plan, report: Report, patience: float = following.PATIENCE_S
) -> dict[str, Any]:
    """Stages the release, files the request and watches until the host has stored the outcome."""
    report({"event": "staging", "release": made.rendered.number})
    there = made.facts["overlay_held"] == made.rendered.overlay_digest() != ""
    try:
        agent.ask(
            "stage",
            payload=made.rendered.archive(overlay=not there),
            overlay_of=made.facts["known_good"]["release"] if there else None,
            manifest=made.rendered.manifest.decode(),
            files=len(made.rendered.files),
            unit=render.supervisor_unit(),
            notify=made.notify,
        )
    except Unreachable as error:
        raise Unreachable(
            f"{agent.host.name} was lost while the release was being sent",
            f"no operation was filed, the service is as it was: {error.what}; {error.why}",
            "the same command again, when the host can be reached",
        ) from None
    return following.carry_out(
        agent,
        connect,
        report,
        patience,
        "file",
        request={
            "kind": "deploy",
            "release": made.rendered.number,
            "soak_s": made.soak_s,
            "confirm_s": made.request.confirm_s,
            "first": made.request.first,
            "force": made.request.force,
            "accept_slower": made.request.accept_slower,
            "measure": made.request.measure,
            "drill_anyway": made.request.drill_on_production,
            "by": render.requester(),
        },
    )
