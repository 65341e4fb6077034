"""What the ledger holds of an operation or an evaluation: how it ended, on which stack, and each gate's verdict.

The files under ``operations/`` and ``evaluations/`` are what is true; an entry is made of one of them, by this code
alone, whether it goes into the database or is used at once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import evidence
from .layout import Layout

Entry = dict[str, Any]

_BRIEF = ("operation", "kind", "by", "began", "ended", "seconds", "outcome", "reason", "release", "previous")
_LARGE = 1 << 63  # more is no number of anything, nor SQLite's
_WORD = 200  # characters: longer texts are lines and answers, not figures


def brief(outcome: dict[str, Any]) -> dict[str, Any]:
    """Returns what a history says of an operation."""
    return {key: outcome.get(key) for key in _BRIEF}


def files(layout: Layout) -> dict[str, Path]:
    """Returns the file behind each entry, by the entry's id."""
    found = {}
    for folder, kind in ((layout.operations, "operation"), (layout.evaluations, "eval")):
        for path in folder.glob("*.json") if folder.is_dir() else ():
            if kind == "eval" or path.stem.isdigit():
                found[f"{kind}-{path.stem}"] = path
    return found


def read(name: str, path: Path) -> Entry | None:
    """Returns the entry of a file; None for a damaged one, which must not hide the others."""
    try:
        record = json.loads(path.read_text())
        return of_evaluation(name, record) if "suite" in record else of_outcome(name, record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def from_files(layout: Layout) -> list[Entry]:
    """Returns every entry whose file is whole, the oldest first."""
    return in_order([entry for name, path in files(layout).items() if (entry := read(name, path))])


def in_order(found: list[Entry]) -> list[Entry]:
    """Returns entries as they ended, the oldest first."""
    return sorted(found, key=lambda entry: (entry["ended"], entry["id"]))


def of_outcome(name: str, outcome: dict[str, Any]) -> Entry:
    """Returns the entry of an operation's outcome."""
    return {
        **_stands_on(outcome.get("release") or {}),
        "id": name,
        "ended": str(outcome["ended"]),
        "kind": str(outcome["kind"]),
        "outcome": str(outcome["outcome"]),
        "verdict": evidence.verdict(outcome),
        "what": evidence.words(outcome),
        "verdicts": [_verdict(gate) for gate in outcome.get("verdicts") or []],
        "brief": brief(outcome),
    }


def of_evaluation(name: str, record: dict[str, Any]) -> Entry:
    """Returns the entry of what ``ddops eval`` found; its outcome is no verdict on a deploy."""
    problems = record["problems"]
    outcome = "passed" if record["passed"] else "not passed"
    judged = {"gate": record["suite"], "passed": record["passed"], "what": "; ".join(problems[:3])}
    short = {key: record.get(key) for key in ("suite", "by", "ended", "seconds", "passed")}
    short["max_running"] = record["release"].get("max_running")
    short["stack"] = {"drafter": record["stack"].get("drafter")}
    return {
        **_stands_on({**record["release"], "stack": record["stack"]}),
        "id": name,
        "ended": str(record["ended"]),
        "kind": "eval",
        "outcome": outcome,
        "verdict": None if record["release"].get("drill") else outcome,
        "what": judged["what"] or outcome,
        "verdicts": [_verdict({**judged, "evidence": record["evidence"]})],
        "brief": {**short, "kind": "eval", "problems": [problem[:_WORD] for problem in problems[:3]]},
    }


def _stands_on(release: dict[str, Any]) -> Entry:
    """Returns the release and its combination; raises TypeError for a value that is none."""
    drill = release.get("drill") or {}
    found = {"release": release.get("release"), "drill": drill.get("name"), **evidence.combination(release, None)}
    for key, value in found.items():
        if not (value is None or isinstance(value, str) or (isinstance(value, int) and abs(value) < _LARGE)):
            raise TypeError(f"{key} is {value!r}")
    return found


def _verdict(gate: dict[str, Any]) -> dict[str, Any]:
    found = figures(gate.get("evidence") or {})
    return {
        "gate": str(gate["gate"]),
        "passed": gate["passed"],
        "what": str(gate.get("what") or ""),
        "accept_length": _accept_length(found.get("accept_length")),
        "tok_s": _number(found.get("tok_s")),
        "evidence": found,
    }


def figures(found_out: dict[str, Any]) -> dict[str, Any]:
    """Returns the figures and short words of a verdict's evidence: no lines, no answers of a model."""
    found: dict[str, Any] = {}
    for key, value in found_out.items():
        if isinstance(value, dict):
            found[key] = figures(value)
        elif isinstance(value, (int, float)) or (isinstance(value, str) and len(value) <= _WORD):
            found[key] = value
    return found


def _accept_length(value: Any) -> float | None:
    """Returns tokens a verify step; of the passes the warm one, which every measurement has."""
    return _number(value.get("warm", value.get("cold"))) if isinstance(value, dict) else _number(value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
