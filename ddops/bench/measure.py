"""A bench: a load sent several times over, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ..agent import figures
from ..agent.figures import Slo
from ..agent.stream import Stream
from ..errors import Unreachable
from . import sending
from .load import Load

BINS = 60


@dataclass(frozen=True)
class Progress:
    """How far a bench has come: the run, from 1, and its requests that ended and failed."""

    run: int
    done: int
    failed: int


@dataclass(frozen=True)
class Measured:
    """The figures of each run, those over all runs, tokens a second over the last run's time, and errors by count."""

    runs: list[dict[str, Any]]
    figures: dict[str, dict[str, Any]]
    over_time: list[float]
    errors: dict[str, int]

    @property
    def failed(self) -> int:
        return sum(int(run["failed"]) for run in self.runs)

    def as_json(self, url: str, load: Load, slo: Slo) -> dict[str, Any]:
        """Returns everything, with the load that was sent; the SLO's limits are in seconds."""
        sent = asdict(load)
        if load.input_tokens:
            sent.pop("prompts")  # they were not used
        return {"url": url, "load": sent, "slo": asdict(slo), **asdict(self), "failed": self.failed}


def measure(url: str, load: Load, slo: Slo, repeats: int, report: Callable[[Progress], None]) -> Measured:
    """Runs the load ``repeats`` times; raises Unreachable where not one request of a run was answered."""
    runs: list[dict[str, Any]] = []
    errors: dict[str, int] = {}
    streams: list[Stream] = []
    for number in range(1, repeats + 1):
        counted = _Counted(number, report)
        streams = sending.run(url, load, number, counted)
        for stream in streams:
            if stream.error:
                errors[stream.error] = errors.get(stream.error, 0) + 1
        if not any(s.good for s in streams):
            what = f"{url} answered none of {len(streams)} requests"
            raise Unreachable(what, max(errors, key=lambda e: errors[e]), f"curl -i {url}/health; ddops status")
        runs.append(figures.of_run(streams, slo, load.concurrency))
    return Measured(runs, figures.of_repeats(runs), figures.over_time(streams, BINS), errors)


class _Counted:
    def __init__(self, run: int, report: Callable[[Progress], None]) -> None:
        self.run, self.report, self.done, self.failed = run, report, 0, 0

    def __call__(self, stream: Stream) -> None:
        self.done += 1
        self.failed += not stream.good
        self.report(Progress(self.run, self.done, self.failed))
