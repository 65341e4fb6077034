"""An evaluation, from the client's side: the suite and its thresholds go to the host, which does all the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import render, suites
from .copies import Copy
from .errors import Refused
from .following import Report
from .profile import Profile
from .remote import Agent

SUITES = ("smoke", "lossless", "coding", "garbage", "load")


def settings_of(suite: str, profile: Profile, problems: Path | None = None) -> dict[str, Any]:
    """Returns what a suite needs of the profile; smoke and lossless go by the release's own gates.

    ``problems`` is a file of one's own for coding, or a folder of them; UsageError where one is wrong.
    """
    return suites.settings_of(suite, profile.suites, problems) if suite in ("coding", "garbage", "load") else {}


def run(agent: Agent, suite: str, settings: dict[str, Any], report: Report) -> dict[str, Any]:
    """Evaluates what serves; returns the suite's result. Raises what the host says."""
    kept = Copy(agent.host.name, agent.service)
    for event in agent.events("eval", suite=suite, settings=settings, by=render.requester(), copy=kept.known()):
        if event["event"] == "ledger":
            kept.take(event)
            continue
        if event["event"] == "result":
            result: dict[str, Any] = event["result"]
            return result
        report(event)
    raise Refused(f"{agent.host.name} ended the evaluation without a result", "", "once more")
