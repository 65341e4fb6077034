"""The way back: the simplest path in the program. No profile, no template, no network."""

from __future__ import annotations

from typing import Any

from . import front, releases, service, systemd
from .errors import AgentError, Refused, ServiceDown
from .layout import Layout
from .operation import Operation
from .promote import promote
from .releases import Release


def prove(layout: Layout, release: Release) -> dict[str, Any]:
    """Proves that a release can be returned to; raises Refused naming what is missing or changed."""
    if wrong := releases.problems(release):
        raise Refused(
            f"release {release.number} is not whole, it cannot be returned to",
            "; ".join(wrong[:3]),
            "ddops history lists the others: ddops rollback --to N",
        )
    unit = systemd.show(release.unit)
    if unit.load == "masked" or (release.adopted and unit.load != "loaded"):
        raise Refused(f"{release.unit} is {unit.load}", "it could not be started", f"systemctl unmask {release.unit}")
    return {"release": release.number, "files": len(release.manifest["files"])}


def restore(op: Operation, trial: Release | None, way_back: Release | None) -> dict[str, Any]:
    """Ends the trial and returns to ``way_back``, proven by right answers before the front is opened.

    Repeatable at any point. Raises ServiceDown where the way back fails too.
    """
    op.turn_back()
    layout = op.layout
    try:
        if way_back is None:
            if trial:
                _end_trial(op, trial)
            raise ServiceDown("there is no way back", "this was the first release: --first was given")
        still_serving = not op.log.begun("stop") and systemd.show(way_back.unit).running
        if not still_serving:
            front.close(layout, _public_port(trial, way_back), 0)
            if trial:
                _end_trial(op, trial)
        found = service.settle(op, way_back, "return")
        front.open_to(layout, way_back, trial=False)
        if systemd.boots(layout) != way_back.unit:
            promote(layout, way_back, trial)
    except ServiceDown:
        raise
    except AgentError as error:
        raise ServiceDown(
            f"the way back failed: {error.what}",
            error.why,
            f"{layout.rollback_script} on the host",
            error.evidence,
        ) from error
    op.unwatch()
    return found


def _end_trial(op: Operation, trial: Release) -> None:
    with op.log.step("end-trial") as found:
        found.update(service.take_down(op, trial, at_once=True))
        systemd.unlink_trial(trial.unit)
        systemd.systemctl("reset-failed", trial.unit, check=False)
        systemd.daemon_reload()


def _public_port(trial: Release | None, way_back: Release) -> int | None:
    fronts = [r.front for r in (trial, way_back) if r and r.front]
    return int(fronts[0]["port"]) if fronts else None
