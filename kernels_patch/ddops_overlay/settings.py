"""The overlay's settings: one JSON object in the environment variable DDOPS_OVERLAY.

    {"release": "lab-0002", "platform": "cpu", "drill": {"name": "garbage", "after_steps": 0},
     "ddtree": {"budget": 16, "topk": 8, "spine": true, "audit": false}}
    {"release": "kimi-0002", "arch": "sm_103", "verify_tile": [16, 64, 8]}

Every key may be left out or null. Anything else is an error: a setting that is silently ignored
would make a release look like one it is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

VARIABLE = "DDOPS_OVERLAY"
PLATFORMS = ("cpu",)
DRILLS = ("illegal-access", "garbage")
# 128 rows is what the tree's kernels were written for, and twice what was tested
MAX_BUDGET = 127
DEFAULT_TOPK = 8


class SettingsError(ValueError):
    """DDOPS_OVERLAY says something that the overlay does not know."""


@dataclass(frozen=True)
class Drill:
    """A deliberate, announced fault: which, and after how many decode steps (0: at once)."""

    name: str
    after_steps: int = 0


@dataclass(frozen=True)
class DDTree:
    """Of the algorithm DDTREE: nodes of a tree without its root, candidates a position, the greedy chain always in
    the tree, every step checked."""

    budget: int
    topk: int
    spine: bool = True
    audit: bool = False


@dataclass(frozen=True)
class Settings:
    release: str | None = None
    platform: str | None = None
    drill: Drill | None = None
    arch: str | None = None
    verify_tile: list[int] | None = None
    ddtree: DDTree | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def read(environ: Mapping[str, str]) -> Settings:
    """The settings of this process; unset or empty means an idle overlay that only reports."""
    text = environ.get(VARIABLE, "").strip()
    return parse(text) if text else Settings()


def parse(text: str) -> Settings:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{VARIABLE} is not JSON: {error}") from error
    fields = _object(value, VARIABLE, {"release", "platform", "drill", "arch", "verify_tile", "ddtree"})
    return Settings(
        release=_text(fields.get("release"), "release"),
        platform=_choice(fields.get("platform"), f"{VARIABLE}.platform", PLATFORMS),
        drill=_drill(fields.get("drill")),
        arch=_text(fields.get("arch"), "arch"),
        verify_tile=_tile(fields.get("verify_tile")),
        ddtree=_ddtree(fields.get("ddtree")),
    )


def _drill(value: Any) -> Drill | None:
    if value is None:
        return None
    where = f"{VARIABLE}.drill"
    fields = _object(value, where, {"name", "after_steps"})
    name = _choice(fields.get("name"), f"{where}.name", DRILLS)
    if name is None:
        raise SettingsError(f"{where}.name is missing; known: {', '.join(DRILLS)}")
    return Drill(name, _whole(fields.get("after_steps", 0), f"{where}.after_steps", 0, None))


def _ddtree(value: Any) -> DDTree | None:
    if value is None:
        return None
    where = f"{VARIABLE}.ddtree"
    fields = _object(value, where, {"budget", "topk", "spine", "audit"})
    if "budget" not in fields:
        raise SettingsError(f"{where}.budget is missing")
    budget = _whole(fields["budget"], f"{where}.budget", 1, MAX_BUDGET)
    topk = fields.get("topk")
    return DDTree(
        budget=budget,
        topk=min(DEFAULT_TOPK, budget) if topk is None else _whole(topk, f"{where}.topk", 1, MAX_BUDGET),
        spine=_flag(fields.get("spine", True), f"{where}.spine"),
        audit=_flag(fields.get("audit", False), f"{where}.audit"),
    )


def _whole(value: Any, where: str, least: int, most: int | None) -> int:
    # bool is an int in Python, and true steps are no number of steps
    if isinstance(value, int) and not isinstance(value, bool) and value >= least and (most is None or value <= most):
        return value
    bounds = f"{least} or more" if most is None else f"{least} to {most}"
    raise SettingsError(f"{where} must be a whole number, {bounds}, not {value!r}")


def _flag(value: Any, where: str) -> bool:
    if isinstance(value, bool):
        return value
    raise SettingsError(f"{where} must be true or false, not {value!r}")


def _text(value: Any, name: str) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise SettingsError(f"{VARIABLE}.{name} must be a text, not {value!r}")


def _tile(value: Any) -> list[int] | None:
    """Queries, keys and warps of one block."""
    whole = isinstance(value, list) and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in value)
    if value is None or (whole and len(value) == 3):
        return value
    raise SettingsError(f"{VARIABLE}.verify_tile must be three whole numbers, not {value!r}")


def _choice(value: Any, where: str, known: tuple[str, ...]) -> str | None:
    if value is None or (isinstance(value, str) and value in known):
        return value
    raise SettingsError(f"{where} is {value!r}; known: {', '.join(known)}")


def _object(value: Any, where: str, known: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where} must be a JSON object, not {value!r}")
    unknown = sorted(set(value) - known)
    if unknown:
        raise SettingsError(f"{where} has unknown keys {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    return value
