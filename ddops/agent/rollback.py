"""A rollback that an operator asked for."""

from __future__ import annotations

from typing import Any

from . import errors, front, releases, reserve, restore, service, systemd
from .errors import AgentError, EngineFault, GateFailed, Refused, ServiceDown
from .gates.smoke import smoke
from .layout import Layout
from .operation import Operation
from .promote import forget_others, promote, prune
from .releases import Release
from .watch import EngineWatch


def run(op: Operation) -> dict[str, Any]:
    """Returns to known-good, or to the promoted release that the request names. Repeatable.

    Where that release serves already and answers right, nothing is restarted.
    """
    return _run(op, "rolled-back", ask_first=True)


def restart(op: Operation) -> dict[str, Any]:
    """Starts known-good anew after a fault, whether it answers or not. Repeatable."""
    return _run(op, "restarted", ask_first=False)


def _run(op: Operation, done: str, *, ask_first: bool) -> dict[str, Any]:
    layout = op.layout
    op.log.must_write_ahead = False  # a full disk must not stop what has to be done
    reserve.spend_if_short(layout)
    try:
        target = _target(op)
        proof = restore.prove(target)
    except AgentError as error:
        return {
            "outcome": "refused",
            "reason": error.record(),
            "release": None,
            "previous": None,
            "verdicts": [],
        }
    live = releases.pointed_if_whole(layout, layout.live)
    outcome: dict[str, Any] = {"release": target.summary(), "previous": live.summary() if live else None}
    try:
        # what an earlier life of the supervisor has begun is gone through again to its end
        if ask_first and not op.log.begun("drain") and _serves(op, target):
            front.open_to(layout, target, trial=False)
            forget_others(layout, target)
            service.note_live(op, target)
            verdict = {"gate": "smoke", "passed": True, "what": "it serves already and answers right"}
            return {**outcome, "outcome": "unchanged", "reason": None, "verdicts": [verdict], "proof": proof}
        found = _return_to(op, target, live)
    except ServiceDown as down:
        return {**outcome, "outcome": "rollback-failed", "reason": down.record(), "verdicts": []}
    verdicts = [{"gate": name, "passed": True, "evidence": found[name]} for name in ("ready", "smoke")]
    return {**outcome, "outcome": done, "reason": op.request.get("reason"), "verdicts": verdicts, "proof": proof}


def _target(op: Operation) -> Release:
    layout, number = op.layout, op.request.get("to")
    if number is None:
        known_good = releases.pointed(layout, layout.known_good)
        if known_good is None:
            raise Refused(
                f"{layout.name} has no known-good release", "nothing was adopted or promoted", "ddops history"
            )
        return known_good
    target = releases.load(layout, int(number))
    if not target.adopted and not (target.directory / "promoted.json").exists():
        raise Refused(
            f"release {number} was never promoted",
            "a rollback goes only to a release that was good",
            "ddops history",
        )
    return target


def _serves(op: Operation, target: Release) -> bool:
    """Says whether the target runs and answers right now."""
    if not systemd.show(target.unit).running or not restore.is_known_good(op.layout, target):
        return False
    try:
        with op.log.step("ask"):
            smoke(service.engine_of(target), target.gates["smoke"], target.deadlines["gates"])
    except AgentError:
        return False
    return True


def _return_to(op: Operation, target: Release, live: Release | None) -> dict[str, Any]:
    layout = op.layout
    try:
        with op.log.step("drain") as found:
            found.update(front.close(layout, _port_to_close(layout, target, live), 0))
        loading = _loads(op, target)
        for release in _running(op, target, live):
            if not (loading and release.number == target.number):
                _stop(op, release, at_once=True)
        service.end_strays(op, target)
        try:
            found = service.settle(op, target, "return")
        except (EngineFault, GateFailed):
            if not loading:
                raise
            _stop(op, target, at_once=True)  # what we waited for never came
            found = service.settle(op, target, "return")
        front.open_to(layout, target, trial=False)
        if not restore.is_known_good(layout, target) or op.log.begun("promote"):
            with op.log.step("promote"):
                op.when_there_is_room("promote", lambda: promote(layout, target))
            prune(layout, op.log)
    except ServiceDown:
        raise
    except Exception as error:
        failure = errors.of(error)
        raise ServiceDown(
            f"release {target.number} did not come back: {failure.what}",
            failure.why,
            "ddops logs; ddops rollback --to N goes further back",
            failure.evidence,
        ) from error
    return found


def _port_to_close(layout: Layout, target: Release, live: Release | None) -> int | None:
    """Returns the public port, None where an adopted unit that runs holds it: it frees it when it is stopped.

    What the pointers say may be older than what a boot has started.
    """
    if any(r and r.front is None and systemd.show(r.unit).running for r in (target, live)):
        return None
    return front.public_port(live, target, releases.pointed_if_whole(layout, layout.known_good))


def _stop(op: Operation, release: Release, *, at_once: bool) -> None:
    op.unwatch()
    with op.log.step("stop") as found:
        found.update(service.take_down(op, release, at_once=at_once))


def _running(op: Operation, target: Release, live: Release | None) -> list[Release]:
    """Returns the releases to take down: whatever runs, the target itself where it answers wrong."""
    known_good = releases.pointed_if_whole(op.layout, op.layout.known_good)
    candidates = {r.number: r for r in (live, known_good, target) if r}
    return [r for r in candidates.values() if service.remains(systemd.show(r.unit))]


def _loads(op: Operation, target: Release) -> bool:
    """True where the target was started by a boot and was never ready yet, or by this very operation."""
    unit = systemd.show(target.unit)
    if not unit.running or not unit.invocation:
        return False
    if any(e["event"] == "started" and e["unit"] == target.unit for e in op.log.events):
        return True
    watch = EngineWatch(unit)
    try:
        return watch.poll() is None and not watch.fired_up
    finally:
        watch.close()
