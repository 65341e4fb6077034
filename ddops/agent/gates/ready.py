"""Ready: this invocation answers on its own port, and what is in effect is what was asked for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .. import processes, systemd
from ..engine import Engine
from ..errors import GateFailed
from ..releases import Release

if TYPE_CHECKING:
    from ..watch import EngineWatch

_LAG_S = 5.0  # the engine answers before its line has come through the journal
_DECODE_LAG_S = 0.05  # as long as a decode line usually is under way


def serving(release: Release, engine: Engine, invocation: str, timeout: float) -> dict[str, Any]:
    """Checks that the release's own unit holds its port, is healthy and generates.

    Returns the evidence; raises GateFailed naming the first thing that is not as it must be.
    """
    unit = systemd.show(release.unit)
    if unit.active != "active" or unit.invocation != invocation:
        raise GateFailed(f"{unit.name} is {unit.active}", f"invocation {unit.invocation or 'none'}")
    if not processes.of_unit(unit, release.port):
        owners = processes.holders(processes.listener(release.port) or set())
        who = ", ".join(processes.describe(p) for p in sorted(owners)) or "nobody"
        raise GateFailed(f"port {release.port} is not {unit.name}'s own", f"it is held by {who}")
    if not engine.healthy(timeout):
        raise GateFailed(f"{unit.name} is active but /health is not 200")
    text = _generate(engine, timeout)
    return {"invocation": unit.invocation, "main_pid": unit.main_pid, "generation": text}


def ready(release: Release, engine: Engine, watch: EngineWatch, timeout: float) -> dict[str, Any]:
    """Checks that a trial serves, its effective settings, and the overlay's reports in its journal.

    Returns the evidence; raises GateFailed naming the first thing that is not as it must be.
    """
    evidence = serving(release, engine, watch.unit.invocation, timeout)
    expect = release.manifest["expect"]
    evidence["effective"] = _effective(engine, expect["server_info"], timeout)
    end = time.monotonic() + _LAG_S
    while not watch.fired_up and time.monotonic() < end:
        time.sleep(0.02)
    if not watch.fired_up:
        raise GateFailed("the journal of this invocation holds no line that the server is ready")
    evidence["graphs"] = _graphs(engine, watch, bool(expect["graphs"]), timeout)
    reports = _overlay(watch, release, int(expect["overlay_ranks"]), expect.get("overlay"))
    audited(reports, int(expect["overlay_ranks"]), evidence["effective"], bool(expect["graphs"]))
    if asked := expect.get("ddtree"):
        _as_asked(reports, asked)
    evidence["overlay"] = reports
    return evidence


def _effective(engine: Engine, settings: dict[str, Any], timeout: float) -> dict[str, Any]:
    info = engine.get_json("/server_info", timeout)
    for key, want in settings.items():
        if key not in info:
            raise GateFailed(f"the engine does not say its {key}", "/server_info has no such key")
        if info[key] != want:
            raise GateFailed(f"{key} is {info[key]!r} in effect, {want!r} was asked for", "read from /server_info")
    return {key: info[key] for key in settings}


def _generate(engine: Engine, timeout: float) -> str:
    params = {"max_new_tokens": 16, "temperature": 0, "ignore_eos": True}
    text = str(engine.post("/generate", {"text": "1, 2, 3,", "sampling_params": params}, timeout).get("text", ""))
    if not text.strip():
        raise GateFailed("a generation came back empty")
    return text


def _graphs(engine: Engine, watch: EngineWatch, want: bool, timeout: float) -> str:
    """Generates until a decode line says whether graphs run: the engine prints one every few steps only."""
    end = time.monotonic() + timeout
    while not (said := [line["graph"] for line in watch.decode if "graph" in line]):
        if time.monotonic() > end:
            raise GateFailed("no decode line says whether CUDA graphs run", "the journal of this invocation holds none")
        _generate(engine, timeout)
        time.sleep(_DECODE_LAG_S)
    if ("True" in said) != want:
        asked = "asked for" if want else "switched off"
        raise GateFailed(f"CUDA graphs were {asked}, the decode lines say {said[-1]}", "a silent fallback is a fault")
    return said[-1]


def _overlay(watch: EngineWatch, release: Release, ranks: int, identity: str | None) -> list[dict[str, Any]]:
    """Requires a good report of this release's overlay, by its own sha256, from every scheduler rank."""
    reports = [r for r in watch.overlay_reports if r.get("process") == "scheduler"]
    if bad := [r for r in watch.overlay_reports if not r.get("ok")]:
        raise GateFailed("the overlay is not in effect", str(bad[0].get("problem", "it reported a problem")))
    own = f"{release.manifest['service']}-{release.number:04d}"
    if wrong := [r for r in reports if r.get("release") != own]:
        raise GateFailed("another release's overlay is in effect", f"{wrong[0].get('release')}, not {own}")
    if identity and (other := [r for r in reports if r.get("overlay") != identity]):
        found = str(other[0].get("overlay"))
        raise GateFailed("another overlay than the release's runs", f"sha256 {found[:12]}, not {identity[:12]}")
    if len({r.get("tp_rank") for r in reports}) < ranks:
        raise GateFailed("the overlay did not report from every scheduler rank", f"{len(reports)} of {ranks} reported")
    return reports


def _as_asked(reports: list[dict[str, Any]], want: dict[str, Any]) -> None:
    """Requires of every rank the settings of DDTREE that were asked for."""
    for report in reports:
        have = (report.get("settings") or {}).get("ddtree") or {}
        if wrong := {key: have.get(key) for key in want if have.get(key) != want[key]}:
            raise GateFailed(f"DDTREE has {wrong} in effect, {want} was asked for", f"rank {report.get('tp_rank')}")


def audited(reports: list[dict[str, Any]], ranks: int, effective: dict[str, Any], graphs: bool) -> None:
    """Requires of an engine that serves DDTREE each rank's audit at start-up, of the width and graphs asked for.

    Raises GateFailed naming what is missing or different.
    """
    if effective.get("speculative_algorithm") != "DDTREE":
        return
    audits = {r.get("tp_rank"): r["ddtree"] for r in reports if r.get("ddtree")}
    if len(audits) < ranks:
        raise GateFailed("DDTREE was not audited in every scheduler rank", f"{len(audits)} of {ranks} reported")
    asked = {"width": effective.get("speculative_num_draft_tokens"), "graphs": graphs}
    for rank, audit in sorted(audits.items()):
        if not audit.get("batches"):
            raise GateFailed("DDTREE's audit examined nothing", f"rank {rank}")
        for key, want in asked.items():
            if audit.get(key) != want:
                raise GateFailed(
                    f"DDTREE's audit is of {key} {audit.get(key)!r}, {want!r} was asked for", f"rank {rank}"
                )
