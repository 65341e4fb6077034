"""Hardware profiles: what is true of a machine type, and the service's defaults, limits and gates there."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from . import config, resources
from .agent.layout import SERVICE_NAME
from .config import Strict
from .errors import UsageError

Port = PositiveInt


class Budget(Strict):
    default: PositiveInt
    max: PositiveInt


class Graphs(Strict):
    default: bool
    refused_because: str | None = None


class Launch(Strict):
    arguments: dict[str, str | int | float | bool]
    environment: dict[str, str]


class Speculation(Strict):
    algorithm: str
    arguments: dict[str, str | int | float | bool]


class Overlay(Strict):
    platform: Literal["cpu"] | None
    ranks: PositiveInt


class Ports(Strict):
    public: Port = Field(le=65535)
    engine_base: Port = Field(le=64535)


class Deadlines(Strict):
    """Seconds for each phase."""

    drain: NonNegativeFloat
    stop: PositiveFloat
    load_silence: PositiveFloat
    load_cap: PositiveFloat
    gates: PositiveFloat
    answer: PositiveFloat


class Question(Strict):
    prompt: str
    expect: str


class Smoke(Strict):
    concurrency: list[PositiveInt] = Field(min_length=1)
    max_tokens: PositiveInt
    questions: list[Question] = Field(min_length=1)


class Lossless(Strict):
    """``tolerance`` is in nats."""

    tolerance: PositiveFloat
    tokens: PositiveInt
    concurrency: PositiveInt
    prompts: list[str] = Field(min_length=1)


class Acceptance(Strict):
    tokens: PositiveInt = Field(ge=32)
    min_accept_length: PositiveFloat
    tolerance: float = Field(ge=0, lt=1)
    prompts: list[str] = Field(min_length=1)


class Gates(Strict):
    smoke: Smoke
    lossless: Lossless
    acceptance: Acceptance


class Profile(Strict):
    name: str
    description: str
    service: str = Field(pattern=f"^{SERVICE_NAME}$")
    sglang: str
    arch: str
    gpus: int = Field(ge=0)
    budget: Budget
    graphs: Graphs
    launch: Launch
    speculation: Speculation
    overlay: Overlay
    ports: Ports
    user: str | None
    hardening: list[str]
    deadlines: Deadlines
    soak: PositiveFloat
    gates: Gates


def names() -> list[str]:
    """Returns the profiles that ddops carries."""
    return sorted(path.stem for path in resources.folder("profiles").glob("*.yaml"))


def only() -> Profile:
    """Returns the one profile there is; raises UsageError where there are several."""
    known = names()
    if len(known) > 1:
        raise UsageError("which profile?", f"known are: {', '.join(known)}", "--profile NAME")
    return load(known[0])


def load(name: str) -> Profile:
    """Returns a profile that ddops carries, or the one in a file where a path to a .yaml is given.

    Raises UsageError for an unknown name, with the nearest known one.
    """
    if name.endswith((".yaml", ".yml")):
        return config.read(Path(name), Profile)
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise UsageError(
            f"unknown profile '{name}'",
            f"known are: {', '.join(known)}",
            f"did you mean '{near[0]}'?" if near else "",
        )
    return config.read(resources.folder("profiles") / f"{name}.yaml", Profile)
