"""A deploy on the host, from the proof of the way back to promotion, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from . import baseline, durable, errors, front, measure, preflight, recording, releases, restore, service, soak, systemd
from .errors import AgentError, Cancelled, EngineFault, GateFailed, Measured, NotBetter, ServiceDown
from .gates.acceptance import acceptance
from .gates.lossless import lossless
from .gates.ready import ready
from .gates.smoke import smoke
from .gates.throughput import throughput
from .operation import Operation
from .promote import promote, prune
from .releases import Release

if TYPE_CHECKING:
    from .watch import EngineWatch


def run(op: Operation) -> dict[str, Any]:
    """Tries the staged release and promotes it, or is back on known-good. Can be resumed at any step."""
    verdicts: list[dict[str, Any]] = []
    trial = way_back = None
    try:
        way_back = _way_back(op)
        trial = releases.load(op.layout, int(op.request["release"]))
        _interrupted(op, trial)
        _attempt(op, trial, way_back, verdicts)
    except Exception as error:  # noqa: BLE001 - whatever it is, the host must not stay on a trial
        failure = errors.of(error)
        if not op.log.begun("drain") and not isinstance(failure, Cancelled):  # a rollback is owed a right answer
            return _outcome("refused", failure, trial, way_back, verdicts)
        try:
            restore.restore(op, trial, way_back)
        except ServiceDown as down:
            return {**_outcome("rollback-failed", failure, trial, way_back, verdicts), "rollback": down.record()}
        return {**_outcome(_ended(failure), failure, trial, way_back, verdicts), **_figures(op)}
    return _outcome("promoted", None, trial, way_back, verdicts)


def _way_back(op: Operation) -> Release | None:
    """Returns the release that rollback goes to, recorded before anything is touched."""
    if recorded := op.log.last("way-back"):
        return releases.load(op.layout, recorded["release"]) if recorded["release"] is not None else None
    known_good = releases.pointed(op.layout, op.layout.known_good)
    op.log.write("way-back", release=known_good.number if known_good else None)
    return known_good


def _interrupted(op: Operation, trial: Release) -> None:
    """Sends a deploy that an earlier life of the supervisor saw fail straight to the way back."""
    # a release that is good is not left because an old one could not be removed
    if failed := next((e for e in op.log.events if e["event"] == "step-failed" and e["step"] != "prune"), None):
        record = failed["error"]
        kind = NotBetter if record.get("code") == NotBetter.code else AgentError
        error = kind(record["what"], record.get("why", ""), record.get("hint", ""), record.get("evidence"))
        error.code = record.get("code", error.code)
        raise error
    if cancelled := op.log.last("cancelled"):
        raise Cancelled("ended by an operator", f"rollback by {cancelled['by']}")
    if fault := op.log.last("fault"):
        raise EngineFault(f"fault in the engine: {fault['rule']}", fault["why"], evidence={"fault": fault})
    if op.request.get("rebooted") and systemd.boots(op.layout) != trial.unit:
        raise AgentError("the host restarted during the trial", "only known-good starts at boot")


def _attempt(op: Operation, trial: Release, way_back: Release | None, verdicts: list[dict[str, Any]]) -> None:
    layout, log = op.layout, op.log
    if log.begun("promote"):
        if not op.request.get("rebooted"):
            service.start(op, trial, trial=True)
        _promote(op, trial, way_back)
        return
    if not log.done("preflight"):
        with log.step("preflight") as found:
            found.update(preflight.check(op, trial, way_back))
    op.check()
    if not log.done("drain"):
        with log.step("drain") as found:
            found.update(front.close(layout, front.public_port(way_back), trial.deadlines["drain"]))
    known = _baseline(op, trial, way_back)
    op.check()
    if way_back and not log.done("stop"):
        with log.step("stop") as found:
            found.update(service.take_down(op, way_back, at_once=False))
    op.check()
    if not log.done("switch"):
        with log.step("switch"):
            releases.point(layout.live, trial, trial=True)
            service.make_known(layout, trial)
    with log.step("load") as found:
        watch = service.start(op, trial, trial=True)
        found.update(service.load(op, trial, watch, "load"))
    _judge(op, trial, watch, known, verdicts)
    if op.request.get("measure"):
        _measure(op, trial)
    with log.step("open"):
        front.open_to(layout, trial, trial=True)
    soak.run(op, trial, watch, known)
    _confirm(op)
    _promote(op, trial, way_back)


def _baseline(op: Operation, trial: Release, way_back: Release | None) -> dict[str, Any] | None:
    """Returns what known-good answered; asked now where that is yet to be done.

    The front is closed by then, where there is one: users would disturb what is measured.
    """
    if way_back is None:
        return None
    stopped, alone = op.log.begun("stop"), way_back.front is not None  # and that is closed
    # what users can reach is never quiet, and is not measured again in vain
    if known := baseline.stored(op.layout, way_back, trial.gates, quiet=not stopped and alone):
        return known
    if stopped:
        raise GateFailed("the record of known-good's answers is gone", str(op.layout.references))
    with op.log.step("record") as found:
        known = recording.record(op.layout, way_back, trial.gates, trial.deadlines["gates"], alone=alone)
        found.update(prompts=len(known["references"]), acceptance=known["acceptance"])
    return known


def _judge(
    op: Operation,
    trial: Release,
    watch: EngineWatch,
    known: dict[str, Any] | None,
    verdicts: list[dict[str, Any]],
) -> None:
    """Runs the gates one after another; the first that fails ends the trial."""
    engine, gates = service.engine_of(trial), trial.gates
    end = time.monotonic() + trial.deadlines["gates"]

    def left() -> float:
        op.check()
        if (seconds := end - time.monotonic()) <= 0:
            raise GateFailed(f"the gates took longer than {trial.deadlines['gates']:g} s")
        return seconds

    def gate(name: str, judge: Callable[[], dict[str, Any]]) -> None:
        if passed := op.log.done(name):  # by this engine, before the supervisor ended: it has users now, perhaps
            verdicts.append({"gate": name, "passed": True, "evidence": passed.get("evidence")})
            return
        try:
            with op.log.step(name) as found:
                found.update(evidence=op.rather_its_fault(judge))
        except AgentError as failure:
            if isinstance(failure, GateFailed):
                failure.what = f"gate {name}: {failure.what}"
            verdicts.append({"gate": name, "passed": False, **failure.record()})
            raise
        verdicts.append({"gate": name, "passed": True, "evidence": found["evidence"]})

    gate("ready", lambda: ready(trial, engine, watch, left()))
    gate("smoke", lambda: smoke(engine, gates["smoke"], left()))
    if known is None:
        verdicts.append({"gate": "lossless", "passed": None, "what": "not judged: a first release has no known-good"})
    else:
        gate("lossless", lambda: lossless(engine, known["references"], gates["lossless"], left()))
    if trial.manifest["engine"]["speculates"]:
        accepted = known["acceptance"] if known else None
        gate("acceptance", lambda: acceptance(engine, accepted, gates["acceptance"], left()))
    speed, slower = known["throughput"] if known else None, bool(op.request.get("accept_slower"))
    gate("throughput", lambda: throughput(engine, speed, gates["throughput"], left(), accept_slower=slower))
    suites = trial.manifest.get("suites") or []
    if suites:
        from .evaluate import judge  # sandbox and scorer: more than the supervisor should hold where none is asked for
    for suite, settings in suites:
        step = f"eval-{suite}"
        gate(step, partial(judge, op.layout, trial, suite, settings, partial(op.progress, step)))


def _measure(op: Operation, trial: Release) -> None:
    """Measures a trial that is not to be promoted, and raises Measured: the way back is next."""
    if not op.log.done("measure"):
        engine, prompts = service.engine_of(trial), trial.gates["throughput"]["prompts"]

        def left() -> float:
            op.check()
            return float(trial.deadlines["gates"])

        run = partial(measure.measure, engine, op.request["measure"], prompts, left, partial(op.progress, "measure"))
        with op.log.step("measure") as found:
            found["measured"] = op.rather_its_fault(run)
    raise Measured("measured", "it was not to be promoted")


def _figures(op: Operation) -> dict[str, Any]:
    done = op.log.done("measure")
    return {"measured": done["measured"]} if done else {}


def _ended(failure: AgentError) -> str:
    """Returns how a trial ended that known-good serves after."""
    return failure.code if isinstance(failure, (Measured, NotBetter)) else "rolled-back"


def _confirm(op: Operation) -> None:
    """Waits for ``ddops confirm`` where the deploy asked for that; without it the host rolls back."""
    seconds = op.request.get("confirm_s")
    if not seconds or op.log.done("confirm"):
        return
    with op.log.step("confirm") as found:
        began = op.log.last("confirm-until")  # a supervisor that starts anew does not prolong it
        until = began["monotonic"] if began else time.monotonic() + float(seconds)
        if not began:
            op.log.write("confirm-until", monotonic=until)
        left = round(until - time.monotonic(), 1)
        found["by"] = op.until(partial(_confirmed, op), left, "nobody confirmed the release")


def _confirmed(op: Operation) -> str:
    said = durable.read_json(op.layout.confirmed) or {}
    return str(said["by"]) if said.get("operation") == op.log.operation else ""


def _promote(op: Operation, trial: Release, way_back: Release | None) -> None:
    op.check()
    op.shield()
    with op.log.step("promote") as found:
        if op.request.get("rebooted"):
            service.settle(op, trial, "settle")
        found.update(promote(op.layout, trial))
        op.check()
    op.unwatch()
    prune(op.layout, op.log)


def _outcome(
    outcome: str,
    error: AgentError | None,
    trial: Release | None,
    way_back: Release | None,
    verdicts: list[dict[str, Any]],
) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "reason": error.record() if error else None,
        "release": trial.summary() if trial else None,
        "previous": way_back.summary() if way_back else None,
        "verdicts": verdicts,
    }
