"""The proof that the overlay is in place: one JSON line per process, after the hooks were applied.

    {"ddops_overlay": {"version": ..., "overlay": sha256, "sglang": ..., "release": ..., "process": "scheduler",
     "tp_rank": 0, "pid": 123, "hooks": [{"target": ..., "sha256": ..., "wrapped": true}],
     "bases": [{"target": ..., "sha256": ...}], "settings": {...}, "ok": true}}

A scheduler that serves DDTREE says a second one after its audit, with what that found under "ddtree".

`hooks` are functions of SGLang that the overlay wraps, `bases` those that it builds on (subclasses).
Each sha256 is of the source of the original, and is compared with `pins`. A report that is not ok names
the problem, and the process ends: an overlay that does not fit must not serve.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from . import __version__, identity, pins
from .hooks import Hook, is_wrapped, source_sha256
from .refuse import refuse
from .say import say
from .settings import Settings

_said: set[tuple[str, int]] = set()


def report(process: str, tp_rank: int | None, settings: Settings, hooks: list[Hook], bases: list[str]) -> None:
    """Say it once per process; refuse to go on when it is not ok."""
    # a forked child inherits this set, so the pid belongs to the key
    if (process, os.getpid()) in _said:
        return
    _said.add((process, os.getpid()))
    content = build(process, tp_rank, settings, hooks, bases)
    say("ddops_overlay", content)
    if not content["ok"]:
        refuse(content["problem"])


def attest(
    tp_rank: int, settings: Settings, hooks: list[Hook], bases: list[str], evidence: dict[str, Any], problem: str | None
) -> None:
    """A scheduler's second report, with the evidence of DDTREE's audit at start-up; refuses to go on with a problem."""
    content = build("scheduler", tp_rank, settings, hooks, bases)
    content["ddtree"] = evidence
    if problem:
        content.update(ok=False, problem=problem)
    say("ddops_overlay", content)
    if not content["ok"]:
        refuse(content["problem"])


def build(process: str, tp_rank: int | None, settings: Settings, hooks: list[Hook], bases: list[str]) -> dict[str, Any]:
    hooked = [{"target": h.target, "sha256": source_sha256(h.target), "wrapped": is_wrapped(h)} for h in hooks]
    based = [{"target": target, "sha256": source_sha256(target)} for target in bases]
    sglang = sglang_version()
    problems = list(find_problems(sglang, hooked, based))
    content: dict[str, Any] = {
        "version": __version__,
        "overlay": identity.sha256(),
        "sglang": sglang,
        "release": settings.release,
        "process": process,
        "tp_rank": tp_rank,
        "pid": os.getpid(),
        "hooks": hooked,
        "bases": based,
        "settings": settings.as_json(),
        "ok": not problems,
    }
    if problems:
        content["problem"] = "; ".join(problems)
    return content


def find_problems(sglang: str, hooked: list[dict[str, Any]], based: list[dict[str, Any]]) -> list[str]:
    problems = []
    if sglang != pins.SGLANG:
        problems.append(f"SGLang is {sglang}, the overlay is for {pins.SGLANG}")
    for entry in [*hooked, *based]:
        target, found = entry["target"], entry["sha256"]
        if found is None:
            problems.append(f"{target} is not there")
        elif found != pins.SOURCES.get(target):
            problems.append(f"the source of {target} is not the one that the overlay was written for")
        if not entry.get("wrapped", True):
            problems.append(f"{target} is not wrapped")
    return problems


def sglang_version() -> str:
    try:
        return version("sglang")
    except PackageNotFoundError:
        return "unknown"
