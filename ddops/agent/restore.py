"""The way back: the simplest path in the program. No profile, no template, no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from . import durable, errors, front, handmade, releases, reserve, service, systemd
from .errors import GateFailed, NoAnswer, Refused, ServiceDown
from .gates.smoke import smoke
from .layout import UNITS, Layout
from .operation import Operation
from .promote import PROMOTED, forget_unit, make_boot
from .releases import Release
from .systemd import SystemdError, Unit

_FILES = re.compile(r"^(?:EnvironmentFile=|LoadCredential=[^:]+:)(/.*)$", re.MULTILINE)


def prove(release: Release, unit: Unit | None = None) -> dict[str, Any]:
    """Proves that a release can be returned to; raises Refused naming what is missing or changed.

    ``unit`` is what systemd has told of its unit just now, where it was asked.
    """
    if wrong := releases.problems(release):
        raise Refused(
            f"release {release.number} is not whole, it cannot be returned to",
            "; ".join(wrong[:3]),
            "ddops history lists the others: ddops rollback --to N",
        )
    unit = unit or systemd.show(release.unit)
    if unit.load == "masked" or (release.adopted and unit.load != "loaded"):
        raise Refused(f"{release.unit} is {unit.load}", "it could not be started", f"systemctl unmask {release.unit}")
    if missing := lacks(release):
        raise Refused(
            f"{release.unit} could not be started: {missing} is not there",
            "what runs is left as it is",
            f"put {missing} back; or ddops rollback --to N, a release that does without it",
        )
    return {"release": release.number, "files": len(release.manifest["files"])}


def lacks(release: Release) -> str:
    """Returns what a release names beside its own files and the host has not, '' where it has all."""
    engine = release.manifest["engine"]
    named = [str(engine.get(name) or "") for name in ("python", "model", "drafter")]
    if not release.adopted:
        text = (release.directory / release.unit).read_text()
        named += [path.replace("%%", "%") for path in _FILES.findall(text)]
    gone = [gone for path in named if path.startswith("/") and (gone := _gone(Path(path)))]
    return gone[0] if gone else handmade.missing_environment(release.unit) if release.adopted else ""


def _gone(path: Path) -> str:
    if not path.exists():
        return str(path)
    # a disk that is not mounted leaves an empty folder
    return f"what lies in {path}" if path.is_dir() and not any(path.iterdir()) else ""


def edited(release: Release, unit: Unit) -> str:
    """Returns what systemd would load that is not the release's own, '' where there is nothing."""
    if strange := strange_drop_ins(release, unit):
        return strange[0]
    installed = UNITS / release.unit
    if release.adopted or not installed.exists():
        return ""
    same = installed.read_bytes() == (release.directory / release.unit).read_bytes()
    return "" if same else str(installed)


def strange_drop_ins(release: Release, unit: systemd.Unit) -> list[str]:
    """Returns drop-ins of somebody else that were not there, or not as they are, when the release was good.

    Those of a package, under /usr, change with it and are not looked at.
    """
    try:
        known = dict((durable.read_json(release.directory / PROMOTED) or {}).get("drop_ins", {}))
    except (OSError, ValueError, AttributeError):
        known = {}
    ours = [
        path for path in unit.drop_ins if path.startswith(("/etc/", "/run/")) and path not in release.manifest["files"]
    ]
    return [path for path in ours if known.get(path) != systemd.sha256(path)]


def restore(op: Operation, trial: Release | None, way_back: Release | None) -> dict[str, Any]:
    """Ends the trial and returns to ``way_back``, proven by right answers before the front is opened.

    Repeatable at any point. Raises ServiceDown where the way back fails too.
    """
    op.turn_back()
    try:
        if way_back is None:
            if trial:
                if systemd.boots(op.layout) == trial.unit:
                    durable.remove(op.layout.known_good)  # its promotion failed half-way
                    systemd.boot_nothing(op.layout)
                    durable.remove(trial.directory / PROMOTED)
                _end_trial(op, trial)
            raise ServiceDown("there is no way back", "this was the first release: --first was given")
        if not op.log.begun("stop") and (found := _reopen(op, way_back)):
            return found
        _close_front(op, front.public_port(trial, way_back))
        if not is_known_good(op.layout, way_back):
            _take_back(op, trial, way_back)
        if trial:
            _end_trial(op, trial)
        service.end_strays(op, way_back)
        found = service.settle(op, way_back, "return")
        front.open_to(op.layout, way_back, trial=False)
    except ServiceDown:
        raise
    except Exception as error:
        failure = errors.of(error)
        raise ServiceDown(
            f"the way back failed: {failure.what}",
            failure.why,
            f"{op.layout.rollback_script} on the host",
            failure.evidence,
        ) from error
    op.unwatch()
    return found


def _take_back(op: Operation, trial: Release | None, way_back: Release) -> None:
    """Takes back a promotion that failed half-way, before anything that may fail or last.

    What boots is renamed, which needs no room; a full disk keeps only the pointer, which the supervisor mends.
    """
    reserve.with_room(op.layout, lambda: make_boot(op.layout, way_back))
    try:
        releases.point(op.layout.known_good, way_back)
    except OSError as error:
        op.log.write("warning", what=f"the pointer known-good cannot be written: {error}")
    if trial:
        durable.remove(trial.directory / PROMOTED)  # no rollback may go to it


def _close_front(op: Operation, port: int | None) -> None:
    """Closes the front; where somebody else holds the port, known-good is brought back all the same."""
    try:
        front.close(op.layout, port, 0)
    except SystemdError as error:
        op.log.write("warning", what=f"{error.what}: {error.why}")


def is_known_good(layout: Layout, release: Release) -> bool:
    """Says whether a release is the one that boots and the one that the pointer names."""
    pointed = releases.pointed_if_whole(layout, layout.known_good)
    return systemd.boots(layout) == release.unit and pointed is not None and pointed.number == release.number


def _reopen(op: Operation, way_back: Release) -> dict[str, Any]:
    """Opens the front again to a known-good that was never stopped.

    Returns nothing where it no longer answers: then it is taken down, to be started anew.
    """
    if not systemd.show(way_back.unit).running:
        return {}
    try:
        with op.log.step("ask") as found:
            found["smoke"] = _asked_again(way_back)
    except GateFailed:
        service.take_down(op, way_back, at_once=True)
        return {}
    front.open_to(op.layout, way_back, trial=False)
    service.note_live(op, way_back)
    return found


def _asked_again(release: Release) -> dict[str, Any]:
    """Asks a release that serves; once more where no answer came: it may be busy, and is not to be ended for that."""
    engine, settings, seconds = service.engine_of(release), release.gates["smoke"], release.deadlines["answer"]
    try:
        return smoke(engine, settings, seconds)
    except NoAnswer:
        return smoke(engine, settings, seconds)


def _end_trial(op: Operation, trial: Release) -> None:
    with op.log.step("end-trial") as found:
        found.update(service.take_down(op, trial, at_once=True))
        forget_unit(trial)
        systemd.daemon_reload()
