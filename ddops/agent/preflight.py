"""What must hold before anything is touched. Nothing here changes the service."""

from __future__ import annotations

import shutil
from typing import Any

from . import brakes, durable, entries, evidence, processes, releases, reserve, restore, service, stack, systemd
from .errors import GateFailed, Refused
from .gates.smoke import ask
from .layout import LAB_MARK, Layout
from .operation import Operation
from .releases import Release


def check(op: Operation, trial: Release, way_back: Release | None) -> dict[str, Any]:
    """Raises Refused for the first thing that stands in the way; returns what was found."""
    request, layout = op.request, op.layout
    if wrong := releases.problems(trial):
        raise Refused("the staged release is damaged", "; ".join(wrong[:3]), "run the same command again")
    found: dict[str, Any] = {"way_back": None}
    reserve.keep(layout)
    if way_back is None and not request.get("first"):
        raise Refused(
            f"{layout.name} has no known-good release: there is no way back",
            "nothing was adopted and nothing was promoted yet",
            "ddops adopt UNIT, or --first to deploy with no way back",
        )
    if stop := brakes.paused(layout):
        raise Refused(
            f"{layout.name} is paused by {stop['by']} since {stop['since']}",
            stop["reason"] or "no reason was given",
            "ddops resume",
        )
    _drill(trial, bool(request.get("drill_anyway")))
    fronts = [layout.front_socket, layout.front_service] if trial.front else []
    ours = [layout.front_service, *([way_back.unit] if way_back else [])]
    units = {unit.name: unit for unit in systemd.shown(trial.unit, layout.alias, *fronts, *ours)}
    if way_back:
        found["way_back"] = restore.prove(way_back, units[way_back.unit])
        untouched(way_back, units[way_back.unit])
        if not request.get("force"):
            serves(way_back)
            if python := same_stack(way_back):
                _undamaged(layout, python)
    _alone(layout, way_back)
    systemd.must_not_be_masked(*(units[name] for name in (trial.unit, layout.alias, *fronts)))
    _hardware(trial)
    found["stack"] = _stack_of_trial(trial)
    if not request.get("force"):
        _not_proven_bad(layout, trial, found["stack"])
    if missing := restore.lacks(trial):
        raise Refused(f"{missing} is not on this host", "the release's unit names it", "ddops site check")
    _port_free(trial.port, "the release's own port")
    if not shutil.which("ss"):
        raise Refused("'ss' is not on this host", "without it the front cannot be closed", "apt-get install iproute2")
    if trial.front:
        _front_port(int(trial.front["port"]), *(units[name] for name in ours))
    return found


def _drill(trial: Release, anyway: bool) -> None:
    if trial.manifest.get("drill") and not LAB_MARK.exists() and not anyway:
        raise Refused(
            f"drill {trial.manifest['drill']['name']} on a host that is not a lab host",
            "a drill breaks the service on purpose",
            "--drill-on-production says that you mean it",
        )


def _not_proven_bad(layout: Layout, trial: Release, stack_now: dict[str, Any]) -> None:
    if trial.manifest.get("drill"):
        return
    known = entries.from_files(layout)  # and not the database: the supervisor has no memory to spare for it
    if bad := evidence.proven_bad(known, evidence.combination(trial.summary(), stack_now)):
        raise Refused(
            f"this combination was rolled back before, as release {bad['release']}",
            f"{bad['what']} ({bad['ended']})",
            "--force tries it again",
        )


def serves(way_back: Release) -> None:
    """Asks known-good one question; raises Refused where it does not answer right."""
    gates, engine = way_back.gates["smoke"], service.engine_of(way_back)
    try:
        ask(engine, gates["questions"][0], gates["max_tokens"], way_back.deadlines["answer"], stream=False)
    except GateFailed as error:
        raise Refused(
            f"known-good does not serve: {error.what}",
            "a way back that does not work now is not proven",
            "ddops rollback brings it back; --force deploys all the same",
        ) from None


def untouched(way_back: Release, unit: systemd.Unit) -> None:
    """Raises Refused where systemd would start something else than what was promoted."""
    if edited := restore.edited(way_back, unit):
        raise Refused(
            f"{way_back.unit} is not what release {way_back.number} was promoted with",
            f"{edited} is not the release's own: the way back is not proven",
            f"take the change back; systemctl cat {way_back.unit} shows it",
        )


def same_stack(way_back: Release) -> str | None:
    """Raises Refused where SGLang, its environment, the model or the drafter is not what known-good was promoted on.

    Returns the interpreter of known-good, None where nothing of all that was recorded.
    """
    recorded = durable.read_json(way_back.directory / "stack.json")
    engine = way_back.manifest["engine"]
    python = engine.get("python")
    if not recorded or not python:
        return None
    now = stack.describe(python, engine["model"], engine.get("drafter"))
    for key, name in (
        ("sglang", "SGLang"),
        ("environment", "the environment of SGLang"),
        ("model", "the model"),
        ("drafter", "the drafter"),
    ):
        if now[key] != recorded.get(key, now[key]):  # an earlier ddops recorded no drafter
            raise Refused(
                f"{name} is not what known-good was promoted on",
                f"{recorded[key][:16]} became {now[key][:16]}: the way back is not proven",
                "put it back; or, knowing that known-good may not start again: --force",
            )
    return str(python)


def _undamaged(layout: Layout, python: str) -> None:
    if wrong := stack.damaged(layout, python):
        raise Refused("SGLang on this host is damaged", "; ".join(wrong[:3]), "reinstall it, known-good needs it too")


def _hardware(trial: Release) -> None:
    """Raises Refused where the host's GPUs are not what the profile is for; a profile without GPUs asks nobody."""
    hardware = trial.manifest["hardware"]
    if not int(hardware["gpus"]):
        return
    from .checks import gpus  # the supervisor keeps what it has loaded; many hosts never need this

    for finding in gpus.check(hardware):
        if finding["state"] == "bad":
            raise Refused(
                f"this host's GPUs are not what profile {trial.manifest['profile']} is for: "
                f"{finding['name']}: {finding['found']}",
                finding["why"],
                finding["next"],
            )


def _stack_of_trial(trial: Release) -> dict[str, Any]:
    engine = trial.manifest["engine"]
    found = stack.describe(engine["python"], engine["model"], engine.get("drafter"))
    if found["sglang"] != engine["sglang"]:
        raise Refused(
            f"SGLang {found['sglang']} is on the host, the profile is for {engine['sglang']}",
            "the overlay is pinned to a version",
            "install that version, or use a profile for this one",
        )
    durable.write_json(trial.directory / "stack.json", found)
    return found


def _alone(layout: Layout, way_back: Release | None) -> None:
    """Raises Refused where something of another release than known-good is there still."""
    for unit in service.strays(layout, way_back):
        who = ", ".join(processes.describe(pid) for pid in sorted(processes.pids(unit.cgroup)))
        raise Refused(
            f"{unit.name} is not gone: {who or unit.active}",
            "nothing is started while it holds memory or its port",
            f"systemctl stop {unit.name}; a process in state D ends with what it waits for, or with a reboot",
        )


def _port_free(port: int, what: str) -> None:
    if processes.listener(port):
        why = f"by {processes.owners(port)}"
        raise Refused(f"port {port} ({what}) is in use", why, "end that process, or choose other ports")


def _front_port(port: int, *ours: systemd.Unit) -> None:
    if taken(port, *ours):
        _port_free(port, "the public port")


def taken(port: int, *ours: systemd.Unit) -> bool:
    """Says whether somebody else than systemd and our own units holds the public port."""
    inodes = processes.listener(port)
    if not inodes:
        return False
    own = {1}.union(*(processes.pids(unit.cgroup) for unit in ours))
    return not processes.holders(inodes) & own
