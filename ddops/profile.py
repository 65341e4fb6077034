"""Hardware profiles: what is true of a machine type, and the service's defaults, limits and gates there.

What each key means is said above it in the profiles themselves; tests hold file and model together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from . import config, resources
from .agent.layout import SERVICE_NAME
from .config import Strict
from .errors import UsageError, did_you_mean

Port = PositiveInt
Arguments = dict[str, str | int | float | bool]


class Hardware(Strict):
    arch: Literal["cpu", "sm_90", "sm_100", "sm_103", "sm_120"]
    gpus: int = Field(ge=0)
    gpu_memory_mib: int = Field(ge=0)
    link: Literal["none", "nvlink", "pcie"]
    power_watts: int = Field(ge=0)
    shared_memory_bytes: int = Field(ge=0)


class Model(Strict):
    context: PositiveInt
    kv_bytes_per_token: PositiveInt
    drafter_block: PositiveInt | None


class Budget(Strict):
    default: PositiveInt
    max: PositiveInt


class Graphs(Strict):
    default: bool
    refused_because: str | None


class Limits(Strict):
    max_running: PositiveInt
    verify_tokens: PositiveInt | None


class Launch(Strict):
    arguments: Arguments
    environment: dict[str, str]


class Drafting(Strict):
    algorithm: str = Field(pattern=r"^[A-Z][A-Z0-9_]*$")
    brought_by: Literal["sglang", "overlay"]
    budgets: tuple[PositiveInt, PositiveInt]
    drafter: bool
    topk: PositiveInt | None
    arguments: Arguments


class Tile(Strict):
    queries: Literal[16, 32, 64, 128]
    keys: Literal[16, 32, 64, 128]
    warps: Literal[1, 2, 4, 8]

    @property
    def shared_memory_bytes(self) -> int:
        """Returns what one block of SGLang's extend kernel needs for MLA at one stage, bf16: the tile of the queries
        (512 wide) and that of the keys (512 and 64). It gives the 106496 bytes that 32 x 64 is known to ask for.
        """
        return 2 * (self.queries * 512 + self.keys * 576)


class Overlay(Strict):
    platform: Literal["cpu"] | None
    ranks: PositiveInt
    verify_tile: Tile | None


class Ports(Strict):
    public: Port = Field(le=65535)
    engine_base: Port = Field(le=64535)

    def of_release(self, number: int) -> int:
        """Returns the port on loopback that a release's engine has to itself."""
        return self.engine_base + number % 1000


class Hardening(Strict):
    option: str = Field(pattern=r"^[A-Z][A-Za-z]+=[^\n\r]*$")
    proven: str


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
    request: dict[str, Any]
    questions: list[Question] = Field(min_length=1)


class Lossless(Strict):
    """``tolerance`` is in nats, ``max_divergent`` a share of the tokens."""

    tolerance: PositiveFloat
    max_divergent: float = Field(ge=0, lt=1)
    tokens: PositiveInt
    concurrency: PositiveInt
    prompts: list[str] = Field(min_length=1)


class Acceptance(Strict):
    tokens: PositiveInt = Field(ge=32)
    min_accept_length: PositiveFloat
    tolerance: float = Field(ge=0, lt=1)
    prompts: list[str] = Field(min_length=1)


class Throughput(Strict):
    tokens: PositiveInt = Field(ge=16)
    repeats: PositiveInt
    tolerance: float = Field(ge=0, lt=1)
    prompts: list[str] = Field(min_length=1)


class Gates(Strict):
    smoke: Smoke
    lossless: Lossless
    acceptance: Acceptance
    throughput: Throughput
    suites: list[Literal["coding", "garbage", "load"]]


class Coding(Strict):
    gate: int = Field(ge=0, le=5)
    right: float = Field(ge=0, le=1)
    tokens: PositiveInt
    concurrency: PositiveInt
    seconds: float = Field(gt=0, le=60)


class Garbage(Strict):
    tokens: PositiveInt = Field(ge=32)
    min_characters: PositiveInt
    min_entropy: NonNegativeFloat
    max_run: PositiveInt
    max_repeated: float = Field(ge=0, le=1)
    max_odd: float = Field(ge=0, le=1)
    prompts: list[str] = Field(min_length=1)


class Load(Strict):
    concurrency: list[PositiveInt] = Field(min_length=1)
    tokens: list[PositiveInt] = Field(min_length=1)
    abort_every: int = Field(ge=2)


class Suites(Strict):
    coding: Coding
    garbage: Garbage
    load: Load


class Watch(Strict):
    """What is done about a fault after promotion."""

    on_fault: Literal["restart", "rollback", "page"]
    on_repeat: Literal["rollback", "page"]
    repeat_within: NonNegativeFloat
    cap: int = Field(ge=0)
    ask_every: PositiveFloat


class Evidence(Strict):
    budget: PositiveInt
    graphs: bool | None
    algorithm: str
    sglang: str | None
    overlay: str | None
    outcome: Literal["good", "bad"]
    what: str
    accept_length: PositiveFloat | None
    tokens_per_second: PositiveFloat | None


class Profile(Strict):
    name: str
    description: str
    service: str = Field(pattern=f"^{SERVICE_NAME}$")
    sglang: str
    hardware: Hardware
    model: Model
    budget: Budget
    graphs: Graphs
    limits: Limits
    launch: Launch
    speculation: list[Drafting] = Field(min_length=1)
    overlay: Overlay
    ports: Ports
    user: str | None = Field(pattern=r"^[a-z_][a-z0-9_-]*$")
    hardening: list[Hardening]
    deadlines: Deadlines
    soak: PositiveFloat
    gates: Gates
    suites: Suites
    watch: Watch
    evidence: list[Evidence]

    @model_validator(mode="after")
    def _fits_its_hardware(self) -> Profile:
        tile = self.overlay.verify_tile
        if tile and tile.shared_memory_bytes > self.hardware.shared_memory_bytes:
            raise ValueError(
                f"overlay.verify_tile of {tile.queries} x {tile.keys} needs {tile.shared_memory_bytes} bytes of shared "
                f"memory, {self.hardware.arch} has {self.hardware.shared_memory_bytes}"
            )
        if self.hardware.gpus and self.launch.arguments.get("tp-size") != self.hardware.gpus:
            raise ValueError(f"launch.arguments.tp-size is not the {self.hardware.gpus} of hardware.gpus")
        return self


def names() -> list[str]:
    """Returns the profiles that ddops carries."""
    return sorted(path.stem for path in resources.folder("profiles").glob("*.yaml"))


def path_of(name: str) -> Path:
    """Returns the file of a profile that ddops carries, or the one that is named by a path to a .yaml.

    Raises UsageError for an unknown name, with the nearest known one.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    known = names()
    if name not in known:
        raise UsageError(
            f"unknown profile '{name}'",
            f"known are: {', '.join(known)}",
            did_you_mean(name, known, "ddops profile list; or a .yaml file of your own"),
        )
    return resources.folder("profiles") / f"{name}.yaml"


def load(name: str) -> Profile:
    """Returns a profile as its file has it; raises UsageError as ``path_of``, and for a file that is wrong."""
    return config.read(path_of(name), Profile)
