"""Making a running hand-made unit release 0, so that the first deploy has a way back."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from . import durable, errors, handmade, processes, recording, releases, service, stack, steplog, systemd
from .errors import Refused
from .gates.smoke import smoke
from .layout import Layout, layout_of, services, unit_name
from .operation import Operation
from .promote import install_rollback_script
from .releases import MANIFEST, Release
from .seen import up_to_now

NUMBER = 0
_BYTES, _FILES = 2 << 20, 50  # what release 0, the agent and the record of known-good's answers take


def run(op: Operation) -> dict[str, Any]:
    """Adopts the unit of the request. The unit's text and its process are left as they are."""
    outcome: dict[str, Any] = {"release": None, "previous": None, "verdicts": []}
    try:
        begun = op.log.begun("enable")
        release = releases.load(op.layout, NUMBER) if begun else _prove(op, outcome["verdicts"])
    except Exception as error:  # noqa: BLE001 - a failed adoption must leave no half-made release 0
        if op.log.begun("store"):
            _discard(op)
        return {**outcome, "outcome": "refused", "reason": errors.of(error).record()}
    try:
        with op.log.step("enable"):
            _make_known_good(op.layout, release)
    except OSError as error:
        _take_back(op)
        return {**outcome, "outcome": "refused", "reason": errors.of(error).record()}
    for link in release.manifest["enablement"]:  # from here on nothing needs room
        durable.remove(Path(link))
    systemd.daemon_reload()
    return {**outcome, "outcome": "adopted", "reason": None, "release": release.summary()}


def _make_known_good(layout: Layout, release: Release) -> None:
    """Makes the unit boot by the alias too, and points to it; the disk may have no room for that."""
    systemd.make_boot(layout, release.unit)
    releases.point(layout.known_good, release)
    releases.point(layout.live, release)
    install_rollback_script(layout)


def _take_back(op: Operation) -> None:
    """Takes an adoption back that the disk had no room for; the unit still boots as it did."""
    for path in (op.layout.known_good, op.layout.live, op.layout.rollback_script):
        durable.remove(path)
    systemd.boot_nothing(op.layout)
    _discard(op)


def _prove(op: Operation, verdicts: list[dict[str, Any]]) -> Release:
    """Records the unit and proves that it answers right; changes nothing but ddops' own files."""
    if op.log.begun("store"):
        _discard(op)  # made by an earlier life of the supervisor
    with op.log.step("inspect") as found:
        unit, manifest, files = _inspect(op.layout, op.request)
        up_to_now(unit).store(op.layout)  # what it went through before is not the watch's
        found.update(unit=unit.name, main_pid=unit.main_pid, port=manifest["engine"]["port"])
    with op.log.step("store"):
        release = _store(op, manifest, files)
    with op.log.step("smoke") as found:
        engine, seconds = service.engine_of(release), release.deadlines["gates"]
        found.update(evidence=smoke(engine, release.gates["smoke"], seconds))
    verdicts.append({"gate": "smoke", "passed": True, "evidence": found["evidence"]})
    with op.log.step("record") as found:
        known = recording.record(op.layout, release, release.gates, seconds, alone=False)
        found.update(prompts=len(known["references"]), acceptance=known["acceptance"])
    return release


def _discard(op: Operation) -> None:
    shutil.rmtree(op.layout.release_dir(NUMBER), ignore_errors=True)


def inspect(layout: Layout, name: str, port: int | None, spec: dict[str, Any]) -> dict[str, Any]:
    """Says whether a unit can be adopted, before anything is made for that on the host; raises Refused."""
    unit, _, _ = _inspect(layout, {"unit": name, "port": port, "spec": spec, "by": ""})
    systemd.must_not_be_masked(systemd.show(layout.supervisor))
    releases.must_have_room(layout, _BYTES, _FILES)
    return {"unit": unit.name}


def _inspect(layout: Layout, request: dict[str, Any]) -> tuple[systemd.Unit, dict[str, Any], dict[str, bytes]]:
    name = unit_name(str(request["unit"]))
    if releases.numbers(layout):
        raise Refused(
            f"{layout.name} has releases already", "only a service without releases can adopt", "ddops status"
        )
    if name == layout.alias:
        raise Refused(
            f"{name} would also be the name that ddops boots",
            f"the service is called {layout.name}, so that name is taken",
            "give the service another name: --service NAME",
        )
    _of_nobody(name)
    unit, alias = systemd.shown(name, layout.alias)
    systemd.must_not_be_masked(unit, alias)
    if unit.load == "not-found":
        raise Refused(f"{name} is not on this host", "systemd knows no such unit", _nearest(name))
    if unit.load != "loaded" or unit.active != "active" or not unit.main_pid:
        raise Refused(
            f"{name} is not running: {unit.load}, {unit.active}",
            "only a running unit can be adopted",
            f"systemctl start {name}",
        )
    handmade.must_be_adoptable(unit)
    pid, argv = handmade.arguments(unit)
    handmade.must_answer_without_a_key(unit, argv)
    process = Path(f"/proc/{pid}")
    files = [unit.fragment, *unit.drop_ins]
    spec = request["spec"]
    manifest = {
        **spec,
        "release": NUMBER,
        "unit": name,
        "adopted": True,
        "created": steplog.now(),
        "by": request["by"],
        "front": None,
        "expect": {},
        "engine": {
            "host": "127.0.0.1",
            "port": _port(request, unit, argv),
            "python": argv[0] if argv[0].startswith("/") else os.readlink(process / "exe"),
            "model": handmade.model(argv) or spec["engine"]["model"],
            "drafter": handmade.drafter(argv),
            "speculates": handmade.option(argv, "--speculative-algorithm") is not None,
        },
        "enablement": handmade.enablement(name),
        "files": {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in files},
    }
    captured = {
        "arguments": process.joinpath("cmdline").read_bytes(),
        "environ": process.joinpath("environ").read_bytes(),  # may hold secrets: root's alone, never printed
        **{f"unit-{i}-{Path(path).name}": Path(path).read_bytes() for i, path in enumerate(files)},
    }
    return unit, manifest, captured


def _of_nobody(name: str) -> None:
    """Raises Refused for a unit that another service has adopted: its alias would start it at the boot, too."""
    for other in services():
        with contextlib.suppress(Refused):  # a damaged release is no proof
            adopted = releases.load(layout_of(other), NUMBER)
            if adopted.adopted and adopted.unit == name:
                break
    else:
        return
    raise Refused(
        f"{name} is release {NUMBER} of {other} already",
        "a unit belongs to one service",
        f"ddops status --service {other}",
    )


def _nearest(name: str) -> str:
    import difflib

    listed = systemd.systemctl("list-units", "--type=service", "--all", "--plain", "--no-legend")
    stems = [line.split()[0].rpartition(".")[0] for line in listed.splitlines() if line.strip()]
    near = difflib.get_close_matches(name.rpartition(".")[0], stems, n=1)  # all end alike
    return f"did you mean {near[0]}.service?" if near else "systemctl list-units --type=service shows what runs"


def _port(request: dict[str, Any], unit: systemd.Unit, argv: list[str]) -> int:
    """Returns the port that the unit serves on: asked for, or its --port, proven by its listener."""
    port = request.get("port") or handmade.option(argv, "--port")
    if port is None:
        raise Refused(f"the port of {unit.name} is not in its arguments", "no --port", "name it: --port N")
    if not processes.of_unit(unit, int(port)):
        raise Refused(f"{unit.name} does not listen on port {port}", "no process of it holds that port", "--port N")
    return int(port)


def _store(op: Operation, manifest: dict[str, Any], files: dict[str, bytes]) -> Release:
    engine = manifest["engine"]
    below = stack.describe(engine["python"], engine["model"], engine["drafter"])
    directory = op.layout.release_dir(NUMBER)
    incoming = op.layout.releases / ".incoming-0000"
    shutil.rmtree(incoming, ignore_errors=True)
    durable.make_directory(op.layout.releases, 0o711)
    incoming.mkdir(mode=0o711)
    for name, data in files.items():
        durable.write(incoming / name, data)
    durable.write_json(incoming / MANIFEST, manifest)
    durable.write_json(incoming / "stack.json", below)
    os.replace(incoming, directory)
    durable.sync_directory(op.layout.releases)
    return releases.load(op.layout, NUMBER)
