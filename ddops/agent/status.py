"""What a service is doing, read from the host and not from anybody's memory."""

from __future__ import annotations

import json
import platform
from itertools import islice
from typing import Any

from . import brakes, entries, front, incidents, processes, releases, reserve, steplog, systemd
from .engine import Engine
from .errors import AgentError
from .gates.smoke import ask
from .journal import Journal, JournalError
from .layout import Layout

_FIRST_ENTRIES = 3000


def status(of: Layout, timeout: float = 30.0) -> dict[str, Any]:
    """Returns the state of a service, with one question asked of the live engine."""
    found: dict[str, Any] = {
        "service": of.name,
        "host": platform.node(),
        "boots": systemd.boots(of),
        "supervisor": systemd.show(of.supervisor).active,
        "under_way": _under_way(of),
        "disk_full": reserve.full(of),
        "paused": brakes.paused(of),
        "incident": next(iter(incidents.of(of)[-1:]), None),
        "last": [entries.brief(o) for o in steplog.outcomes(of, 1)],
    }
    for name in ("live", "known_good"):
        try:
            release = releases.pointed(of, getattr(of, name))
        except AgentError as error:
            found[name] = {"error": error.record()}
            continue
        found[name] = release.summary() if release else None
        if name == "live" and release:
            found["engine"] = _engine(release, timeout)
            found["front"] = front.state(of, release)
            found["public_port"] = front.public_port(release) or release.port
    found["ails"] = _ails(found)
    found["healthy"] = not found["ails"]
    return found


def _ails(found: dict[str, Any]) -> list[str]:
    """Returns what keeps a service from being healthy, in words; nothing where it is."""
    live, known_good, engine = found["live"] or {}, found["known_good"] or {}, found.get("engine") or {}
    words = []
    if not live or "error" in live:
        words.append("which release is live is not known" if live else "no release is live")
    if not known_good or "error" in known_good:
        words.append("which release is known-good is not known" if known_good else "there is no known-good")
    if live.get("release") != known_good.get("release"):
        words.append("the live release is not known-good")
    if "release" in live and not engine.get("answers"):
        words.append("the engine gives no right answer")
    if "release" in live and found["front"] not in ("open", "none"):
        words.append(f"the front is {found['front']}")
    return words


def _engine(release: releases.Release, timeout: float) -> dict[str, Any]:
    unit = systemd.show(release.unit)
    engine: dict[str, Any] = {"active": unit.active, "main_pid": unit.main_pid, "invocation": unit.invocation}
    engine["listens"] = processes.of_unit(unit, release.port)
    engine["answers"] = False
    engine["overlay"] = _overlay(unit)
    if engine["listens"]:
        try:
            smoke = release.gates["smoke"]
            ask(
                Engine(release.manifest["engine"]["host"], release.port),
                smoke["questions"][0],
                smoke["max_tokens"],
                timeout,
                stream=False,
            )
            engine["answers"] = True
        except AgentError as error:
            engine["problem"] = error.record()
    return engine


def _overlay(unit: systemd.Unit) -> str | None:
    """Returns the sha256 that the running engine's overlay has found of itself, None where it has said nothing.

    Every scheduler reports at its start, so the first entries of the invocation have it.
    """
    if not unit.running or not unit.invocation:
        return None
    try:
        with Journal([f"_SYSTEMD_INVOCATION_ID={unit.invocation}"]) as journal:
            for entry in islice(journal.entries(), _FIRST_ENTRIES):
                if entry.message.startswith('{"ddops_overlay"'):
                    report = json.loads(entry.message)["ddops_overlay"]
                    if report["process"] == "scheduler":
                        return str(report["overlay"])
    except (JournalError, ValueError, KeyError, TypeError):
        return None
    return None


def _under_way(of: Layout) -> dict[str, Any] | None:
    current = steplog.under_way(of)
    if current is None:
        return None
    events = list(steplog.read(steplog.steps_file(of, current["operation"])))
    steps = [e for e in events if e["event"] == "step"]
    return {k: current.get(k) for k in ("operation", "kind", "by", "time", "release")} | {
        "step": steps[-1]["step"] if steps else None,
        "since": steps[-1]["time"] if steps else None,
    }
