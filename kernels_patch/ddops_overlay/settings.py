"""The overlay's settings: one JSON object in the environment variable DDOPS_OVERLAY.

    {"release": "lab-0002", "platform": "cpu", "drill": {"name": "garbage", "after_steps": 0}}
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


class SettingsError(ValueError):
    """DDOPS_OVERLAY says something that the overlay does not know."""


@dataclass(frozen=True)
class Drill:
    """A deliberate, announced fault: which, and after how many decode steps (0: at once)."""

    name: str
    after_steps: int = 0


@dataclass(frozen=True)
class Settings:
    release: str | None = None
    platform: str | None = None
    drill: Drill | None = None
    arch: str | None = None
    verify_tile: list[int] | None = None

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
    fields = _object(value, VARIABLE, {"release", "platform", "drill", "arch", "verify_tile"})
    return Settings(
        release=_text(fields.get("release"), "release"),
        platform=_choice(fields.get("platform"), f"{VARIABLE}.platform", PLATFORMS),
        drill=_drill(fields.get("drill")),
        arch=_text(fields.get("arch"), "arch"),
        verify_tile=_tile(fields.get("verify_tile")),
    )


def _drill(value: Any) -> Drill | None:
    if value is None:
        return None
    where = f"{VARIABLE}.drill"
    fields = _object(value, where, {"name", "after_steps"})
    name = _choice(fields.get("name"), f"{where}.name", DRILLS)
    if name is None:
        raise SettingsError(f"{where}.name is missing; known: {', '.join(DRILLS)}")
    steps = fields.get("after_steps", 0)
    # bool is an int in Python, and true steps are no number of steps
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 0:
        raise SettingsError(f"{where}.after_steps must be a whole number, 0 or more, not {steps!r}")
    return Drill(name, steps)


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
