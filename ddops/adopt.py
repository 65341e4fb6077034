"""Adopting a hand-made unit, from the client's side."""

from __future__ import annotations

from typing import Any

from . import following, render
from .following import Report
from .profile import Profile
from .remote import Agent, Connect
from .site import Site


def run(
    agent: Agent, connect: Connect, profile: Profile, site: Site, unit: str, port: int | None, report: Report
) -> dict[str, Any]:
    """Makes the running unit release 0 of the service; returns the outcome that the host has stored."""
    agent.ask("install", unit=render.supervisor_unit())
    request = {
        "kind": "adopt",
        "unit": unit if "." in unit else f"{unit}.service",
        "port": port,
        "spec": render.spec(profile, site, agent.service),
        "by": render.requester(),
    }
    with following.filing(agent):
        filed = agent.ask("file", request=request)
    report({"event": "filed", "operation": filed["operation"]})
    outcome, _ = following.follow(agent, connect, filed["operation"], report)
    return outcome
