"""A sweep before it begins: its cells in their order, what is known of them, how long it takes. Changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import deploy, render
from ..errors import Refused, UsageError
from . import bisect, choosing
from .cells import Cell, lines_of
from .order import ordered
from .prediction import Prediction, predict
from .result import Result
from .trying import Drill, Setup


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep will do. ``proven_bad`` names the cells that this host has seen fail, with the proof."""

    setup: Setup
    cells: tuple[Cell, ...]
    ruled_out: tuple[Result, ...]
    proven_bad: dict[Cell, str]
    prediction: Prediction
    head: dict[str, Any]

    @property
    def bisects(self) -> bool:
        return bool(self.head["question"]["bisect"])

    @property
    def tries(self) -> int:
        """Returns how many cells will be deployed at most."""
        if not self.bisects:
            return len(self.cells) - len(self.proven_bad)
        return sum(bisect.at_most(sum(c.line == line for c in self.cells)) for line in lines_of(self.cells))

    def choose(self) -> choosing.Choose:
        """Returns what takes the cells one after another."""
        if self.bisects:
            base = self.setup.base
            return choosing.of_bisection(self.cells, base.budget if base else None)
        return choosing.of_grid(self.cells)

    def describe(self) -> dict[str, Any]:
        """Returns the plan as data."""
        drills = {cell: drill for cell in self.cells if (drill := self.setup.drill_of(cell))}
        return {
            **{k: self.head[k] for k in ("host", "hostname", "service", "profile", "stack", "known_good", "question")},
            "cells": [
                cell.as_json()
                | {"drill": drills[cell].name if cell in drills else None}
                | {"proven_bad": self.proven_bad.get(cell)}
                for cell in self.cells
            ],
            "impossible": [r.cell.as_json() | {"reason": r.reason, "why": r.why} for r in self.ruled_out],
            "tries": self.tries,
            "cell": self.prediction.as_json(),
            "seconds": round(self.tries * self.prediction.seconds, 1),
        }


def plan(
    setup: Setup, host: str, service: str, able: Sequence[Cell], ruled_out: Sequence[Result], *, bisects: bool
) -> SweepPlan:
    """Makes the plan; the host is asked for facts, once for each cell of a grid. Changes nothing.

    Raises Refused for whatever stands in the way of all cells, UsageError for a drill that may be above anything.
    """
    agent = setup.connect()
    try:
        first, _ = setup.plan(agent, able[0])
        facts = first.facts
        if problem := facts["stack"].get("problem"):
            raise Refused("nothing can be deployed there", str(problem), "ddops doctor")
        base = _known_good(facts["known_good"] or {}, able, setup)
        setup = replace(setup, base=base, drill=_placed(setup.drill, base))
        cells = ordered(able, base)
        known = {} if bisects else {c: bad for c in cells if (bad := setup.plan(agent, c)[1])}
        if bisects and setup.drill:
            setup.plan(agent, max(cells, key=lambda c: c.budget))  # a host where no drill may be says so now
    finally:
        agent.close()
    # a study of an earlier ddops says nothing of one
    drafter = {"drafter": found} if (found := facts["stack"].get("drafter")) else {}
    head = {
        "host": host,
        "hostname": facts["hostname"],
        "service": service,
        "profile": setup.profile.name,
        "profile_sha256": hashlib.sha256(setup.profile.model_dump_json().encode()).hexdigest(),
        "stack": {key: facts["stack"].get(key) for key in ("sglang", "environment", "model")} | drafter,
        "overlay": first.rendered.as_manifest()["overlay"],
        "known_good": facts["known_good"],
        "base": base.as_json() if base else None,
        "by": render.requester(),
        "question": _question(setup, cells, bisects=bisects),
    }
    predicted = predict(facts["measured_steps"], facts["measured_load"], setup.profile.gates.suites)
    return SweepPlan(setup, tuple(cells), tuple(ruled_out), known, predicted, head)


def _known_good(summary: dict[str, Any], cells: Sequence[Cell], setup: Setup) -> Cell | None:
    """Returns known-good's combination, None where it was adopted and nobody knows.

    Where its topk is the one that a cell would get of the profile, it is that cell.
    """
    try:
        running, topk = summary["max_running"], summary.get("topk")
        found = Cell(summary["budget"], bool(summary.get("graphs")), summary["algorithm"], running, topk)
    except KeyError:
        return None
    plain = replace(found, topk=None)
    if plain in cells:
        options, _ = deploy.options_of(setup.profile, setup.site, setup.request(plain))
        return plain if options.topk == topk else found
    return found


def _placed(drill: Drill | None, base: Cell | None) -> Drill | None:
    if drill is None or drill.above is not None:
        return drill
    if base is None:
        raise UsageError("above which budget is the drill?", "known-good was adopted and has none", "--drill-above N")
    return replace(drill, above=base.budget)


def _question(setup: Setup, cells: Sequence[Cell], *, bisects: bool) -> dict[str, Any]:
    drill = setup.drill
    return {
        "bisect": bisects,
        "cells": [cell.as_json() for cell in cells],
        "measure": setup.measure.as_json(),
        "drill": {"name": drill.name, "above": drill.above, "after_steps": drill.after_steps} if drill else None,
    }
