"""What a plan needs to know of the host and the service. Nothing here changes anything."""

from __future__ import annotations

import platform
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import baseline, evidence, ledger, load_time, releases, stack, steplog, systemd
from .errors import AgentError, Refused
from .layout import Layout

_SECRET = re.compile(r"(?i)(\b[a-z0-9_-]*(?:key|token|secret|passw(?:or)?d|credential)[a-z0-9_-]*[=\s]+)[^\s\"']+")


def facts(of: Layout, about: dict[str, Any]) -> dict[str, Any]:
    """Returns the host's side of a plan.

    ``about`` is the release that is planned: its combination, its interpreter, model and drafter, its unit's text.
    """
    live, known_good = releases.pointed_if_whole(of, of.live), releases.pointed_if_whole(of, of.known_good)
    with ThreadPoolExecutor(2) as beside:  # what systemd says is waited for longest
        rated = beside.submit(exposure, about["unit"])
        shown = beside.submit(systemd.show, live.unit) if live else None
        below = _below(about)  # preflight refuses a problem; a plan shows it
        known, problem = ledger.read(of)
        return {
            "hostname": platform.node(),
            "next_release": releases.next_number(of),
            "live": live.summary() if live else None,
            "known_good": known_good.summary() if known_good else None,
            "overlay_held": releases.overlay_held(known_good),
            "measured_load": load_time.last(of),
            "measured_steps": measured_steps(of),
            "records": _records(of, known_good, about["gates"]),
            "stack": below,
            "evidence": evidence.of(known, evidence.combination(about["combination"], below)),
            "ledger_problem": problem,
            "live_runs": shown is not None and shown.result().active == "active",
            "exposure": rated.result(),
        }


def stack_now(of: Layout, about: dict[str, Any]) -> dict[str, Any]:
    """Returns what a release would stand on now: what evidence is compared with, and a ``problem`` if there is one.

    ``about`` names interpreter, model, drafter and the overlay's sha256; where it is empty they are the live release's.
    """
    if not about:
        live = releases.pointed_if_whole(of, of.live)
        engine, overlay = (live.manifest["engine"], live.manifest.get("overlay")) if live else ({}, None)
        about = {key: engine.get(key, "") for key in ("python", "model", "drafter")} | {"overlay": overlay}
    return {**_below(about), "overlay": about["overlay"]}


def _below(about: dict[str, Any]) -> dict[str, Any]:
    try:
        return stack.describe(about["python"], about["model"], about["drafter"] or None)
    except (AgentError, OSError) as error:
        return {"problem": str(error), "driver": stack.driver()}


def _records(of: Layout, known_good: releases.Release | None, gates: dict[str, Any]) -> bool:
    """Says whether the deploy will have to ask known-good for its answers; it will say what is wrong with them."""
    if known_good is None:
        return False
    try:
        return baseline.stored(of, known_good, gates, quiet=known_good.front is not None) is None
    except (OSError, ValueError):
        return True


def measured_steps(of: Layout) -> dict[str, float]:
    """Returns the seconds of each step when a deploy last came to its end."""
    found: dict[str, float] = {}
    for outcome in reversed(steplog.outcomes(of)):
        if outcome.get("kind") == "deploy":
            for step in outcome.get("steps", []):
                if step["ok"]:
                    found.setdefault(step["step"], step["seconds"])
    return found


def exposure(unit: str) -> str | None:
    """Returns systemd's exposure level of a unit's text (0: sandboxed, 10: not at all), None where it tells none.

    A full disk has no room for the question; that it is full is told by whoever needs room.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "planned.service"
            path.write_text(unit)
            command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(path)]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"Overall exposure level for \S+: (\S+ \S+)", done.stdout.decode(errors="replace"))
    return found[1] if found else None


def texts(of: Layout) -> dict[str, Any]:
    """Returns the texts of the live release's files: unit, environment, overlay.

    Of an adopted unit: its files and its arguments; what looks like a secret is hidden, its environment is not read.
    """
    live = releases.pointed(of, of.live)
    if live is None:
        return {"release": None, "adopted": False, "files": {}}
    if not live.adopted:
        names = [name for name in live.manifest["files"] if name != "launch"]
        return {"release": live.number, "adopted": False, "files": {n: _text(live.directory / n) for n in names}}
    arguments = (live.directory / "arguments").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    found = {live.unit: "".join(_text(Path(path)) for path in live.manifest["files"])}
    return {
        "release": live.number,
        "adopted": True,
        "arguments": _hide(arguments),
        "files": {name: _SECRET.sub(r"\1(hidden)", text) for name, text in found.items()},
    }


def _hide(arguments: list[str]) -> list[str]:
    shown, secret = [], False
    for argument in arguments:
        shown.append("(hidden)" if secret else _SECRET.sub(r"\1(hidden)", argument))
        secret = bool(_SECRET.match(f"{argument}=x")) and "=" not in argument and argument.startswith("-")
    return shown


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise Refused(f"cannot read {path}", error.strerror or "", "ddops status") from None
