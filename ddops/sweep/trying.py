"""One cell on the host: planned as a deploy, measured there with the front closed, and back on known-good."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from .. import deploy, evidence, following, ledger
from ..deploy import Plan, Request
from ..errors import DdopsError, Interrupted, Unreachable
from ..exit_codes import ExitCode
from ..profile import Profile
from ..remote import Agent, Connect
from ..settings import Asked
from ..site import HostEntry, Site
from .cells import Cell, of_json
from .result import Result, of_error, of_outcome
from .study import Study

_AGAIN_S = 5.0
_LINES, _LONGEST = 40, 2000  # of a failed engine's journal, characters of each
_ANY_LOSS = 0.999  # of known-good's accept length


@dataclass(frozen=True)
class Measure:
    """What is measured of each cell: ``requests`` of ``tokens`` tokens at each concurrency, ``repeats`` times."""

    concurrency: tuple[int, ...]
    requests: int
    tokens: int
    repeats: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"concurrency": list(self.concurrency)}


@dataclass(frozen=True)
class Drill:
    """A fault on purpose in every cell whose budget is above ``above``; None: above known-good's."""

    name: str
    above: int | None
    after_steps: int = 0
    on_production: bool = False


@dataclass(frozen=True)
class Setup:
    """Where cells are tried, and how; ``base`` is known-good's own combination, where it has one."""

    profile: Profile
    site: Site
    entry: HostEntry
    connect: Connect
    measure: Measure
    base: Cell | None = None
    drill: Drill | None = None
    force: bool = False
    patience_s: float = following.PATIENCE_S

    def drill_of(self, cell: Cell) -> Drill | None:
        """Returns the drill that is planted in a cell, None where there is none."""
        return self.drill if self.drill and cell.budget > (self.drill.above or 0) else None

    def request(self, cell: Cell) -> Request:
        """Returns the deploy that tries a cell."""
        drill = self.drill_of(cell)
        return Request(
            asked=Asked(cell.budget, cell.graphs, cell.max_running, cell.algorithm, topk=cell.topk),
            drill=drill.name if drill else None,
            drill_after_steps=drill.after_steps if drill else 0,
            drill_on_production=bool(drill and drill.on_production),
            accept_slower=True,  # slower is a figure of a sweep, not a failure
            measure=self.measure.as_json(),
        )

    def profile_of(self, cell: Cell) -> Profile:
        """Returns the profile that gates a cell.

        A smaller tree, or another drafter, accepts less than known-good by its nature: that is a figure of a sweep.
        Of such a cell the acceptance gate asks for ``min_accept_length`` alone, below which it is a collapse.
        """
        base = self.base
        if base is None or (cell.budget >= base.budget and cell.algorithm == base.algorithm):
            return self.profile
        gates = self.profile.gates
        acceptance = gates.acceptance.model_copy(update={"tolerance": _ANY_LOSS})
        return self.profile.model_copy(update={"gates": gates.model_copy(update={"acceptance": acceptance})})

    def plan(self, agent: Agent, cell: Cell) -> tuple[Plan, str]:
        """Returns the plan of a cell, and the proof that it is bad on this very stack, '' where there is none."""
        request = self.request(cell)
        made = deploy.plan(agent, self.profile_of(cell), self.site, self.entry, replace(request, force=True))
        known = None if request.drill else evidence.proven_bad(made.known)
        if self.force and known:  # for this cell alone: with it the host asks less of known-good, too
            return replace(made, request=replace(request, force=True)), ""
        return replace(made, request=request), known.text if known else ""


def attempt(setup: Setup, study: Study, report: Callable[[dict[str, Any]], None], cell: Cell, number: int) -> Result:
    """Tries a cell; known-good serves again when this returns, unless the result says that it is down.

    Raises Unreachable where the host is lost and stays so, Interrupted at Ctrl-C: what was filed goes on there, and
    ``settle`` tells later how it ended.
    """
    try:
        agent = setup.connect()
        try:
            made, bad = setup.plan(agent, cell)
            if bad:
                return Result(cell, "known-bad", bad)
            number_of, print_of = made.rendered.number, made.rendered.fingerprint
            study.write("begun", cell=cell.as_json(), release=number_of, fingerprint=print_of, attempt=number)
            outcome = deploy.run(agent, setup.connect, made, _recorded(study, report), setup.patience_s)
        finally:
            agent.close()
    except (Unreachable, Interrupted):
        raise
    except DdopsError as error:
        return of_error(cell, error, number)
    return _told(setup, cell, outcome, number)


def _told(setup: Setup, cell: Cell, outcome: dict[str, Any], number: int) -> Result:
    """Returns what an outcome says of a cell; of one that failed with the last lines of its engine's journal."""
    result = of_outcome(cell, outcome, number)
    if outcome["outcome"] == "refused":
        return replace(result, code=int(ExitCode.REFUSED))
    if not result.fails or result.release is None:
        return result
    agent = setup.connect()
    try:
        events = agent.events("logs", release=result.release, last=_LINES, follow=False, after="")
        lines = tuple(str(e["message"])[:_LONGEST] for e in events if e["event"] == "entry")
    except DdopsError as error:
        lines = (f"(its journal could not be read: {error.what}: {error.why})",)
    finally:
        agent.close()
    return replace(result, lines=lines)


def patiently(setup: Setup, study: Study, report: Callable[[dict[str, Any]], None], cell: Cell, number: int) -> Result:
    """Tries a cell; a host that is lost is looked for again for as long as the patience lasts.

    What it had in its hands is waited for, never tried a second time. Raises as ``attempt``.
    """
    end = time.monotonic() + setup.patience_s
    while True:
        try:
            return settle(setup, study, report) or attempt(setup, study, report, cell, number)
        except Unreachable as error:
            if time.monotonic() > end:
                raise
            report({"event": "lost", "what": error.what, "why": error.why})
            time.sleep(_AGAIN_S)


def _recorded(study: Study, report: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def heard(event: dict[str, Any]) -> None:
        if event["event"] == "filed":
            study.write("filed", operation=event["operation"])
        report(event)

    return heard


def settle(setup: Setup, study: Study, report: Callable[[dict[str, Any]], None]) -> Result | None:
    """Returns what came of the cell whose end nobody saw, waiting for it where it is still under way.

    None where there is none, or where it never reached the host: it is as if it had not been tried.
    """
    left = study.open
    if left is None:
        return None
    cell, number = of_json(left["cell"]), int(left.get("attempt", 1))
    agent = setup.connect()
    try:
        operation = left.get("operation") or _operation_of(agent, left)
        if operation is None:
            study.write("lost", cell=left["cell"])
            return None
        report({"event": "sweep-taken-up", "operation": operation, "cell": cell})
        outcome, agent = following.follow(agent, setup.connect, operation, report, setup.patience_s)
    finally:
        agent.close()
    return _told(setup, cell, outcome, number)


def _operation_of(agent: Agent, left: dict[str, Any]) -> int | None:
    """Returns the operation that deploys the release which was about to be sent, None where there is none."""
    for past in reversed(ledger.ask(agent, None).operations()):
        release = past.get("release") or {}
        if (release.get("release"), release.get("fingerprint")) == (left["release"], left["fingerprint"]):
            return int(past["operation"])
    current = agent.ask("status").get("under_way") or {}
    return int(current["operation"]) if current.get("release") == left["release"] else None
