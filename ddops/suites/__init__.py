"""The problems that ddops carries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, field_validator, model_validator

from .. import config
from ..config import Strict
from ..errors import UsageError


class Test(Strict):
    args: list[Any]
    want: Any


class Problem(Strict):
    """A function to write: its name and arguments, what it has to do, and calls with their results (JSON values)."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    signature: str
    task: str = Field(min_length=1)
    tests: list[Test] = Field(min_length=1)

    @field_validator("signature")
    @classmethod
    def _a_function(cls, text: str) -> str:
        if not re.fullmatch(r"[A-Za-z_]\w*\([\w, ]*\)", text):
            raise ValueError(f"'{text}' is no function with its arguments, as in add(a, b)")
        return text

    @model_validator(mode="after")
    def _fits(self) -> Problem:
        inside = self.signature.partition("(")[2].rstrip(")").strip()
        count = len(inside.split(",")) if inside else 0
        if any(len(test.args) != count for test in self.tests):
            raise ValueError(f"a test does not have the {count} arguments of {self.signature}")
        return self


class Problems(Strict):
    problems: list[Problem] = Field(min_length=1)


def settings_of(suite: str, thresholds: BaseModel, problems: Path | None = None) -> dict[str, Any]:
    """Returns what a host needs to run a suite: a profile's thresholds for it, and for coding the problems.

    ``problems`` is a file of one's own, or a folder of them; UsageError where one is wrong.
    """
    found: dict[str, Any] = getattr(thresholds, suite).model_dump()
    if suite == "coding":
        found["problems"] = coding() if problems is None else own(problems)
    return found


def coding() -> list[dict[str, Any]]:
    """Returns the problems of the coding suite, the gate's first."""
    found = config.read(Path(__file__).parent / "coding.yaml", Problems)
    return [problem.model_dump() for problem in found.problems]


def own(path: Path) -> list[dict[str, Any]]:
    """Returns the problems of a YAML file, or of all that a folder has, in the order of their names.

    Raises UsageError for a file that is wrong, a folder without any, or a name that is there twice.
    """
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    problems = [problem for file in files for problem in config.read(file, Problems).problems]
    names = [problem.name for problem in problems]
    if not names:
        raise UsageError(f"{path} holds no problems", "a folder of .yaml files is wanted, or one")
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{path} has the problem '{twice[0]}' twice")
    return [problem.model_dump() for problem in problems]
