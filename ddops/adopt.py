"""Adopting a hand-made unit, from the client's side."""

from __future__ import annotations

from typing import Any

from . import following, manifests, render
from .following import Report
from .profile import Profile
from .remote import Agent, Connect
from .site import Site


def run(
    agent: Agent,
    connect: Connect,
    profile: Profile,
    site: Site,
    unit: str,
    port: int | None,
    report: Report,
    patience: float = following.PATIENCE_S,
) -> dict[str, Any]:
    """Makes the running unit release 0 of the service; returns the outcome that the host has stored."""
    asked: dict[str, Any] = {
        "unit": unit if unit.endswith(".service") else f"{unit}.service",
        "port": port,
        "spec": manifests.spec(profile, site, agent.service),
    }
    agent.ask("inspect", **asked)
    agent.ask("install", unit=render.supervisor_unit(), notify=site.notify.model_dump())
    request = {"kind": "adopt", **asked, "by": render.requester()}
    return following.carry_out(agent, connect, report, patience, "file", request=request)
