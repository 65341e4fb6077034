"""What the GPUs did while a bench ran: power and utilisation by their driver, and what that says of the load."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from statistics import mean, median
from types import TracebackType
from typing import Any

from ..errors import DdopsError
from ..remote import Agent

EVERY_S = 1.0
# of a median over the samples, in per cent; ours, calibrated on no GPU
_BUSY = 80.0
_BANDWIDTH = 60.0
_POWER = 95.0


class Watcher:
    """Asks a host about its GPUs, over a connection of its own, for as long as the context lasts.

    Without ``connect`` nothing is asked.
    """

    def __init__(self, connect: Callable[[], Agent] | None) -> None:
        self._connect = connect
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.samples: list[list[dict[str, Any]]] = []
        self.problem = ""

    def __enter__(self) -> Watcher:
        if self._connect:
            self._thread = threading.Thread(target=self._run, args=(self._connect,), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread:
            self._thread.join(10)

    def _run(self, connect: Callable[[], Agent]) -> None:
        try:
            agent = connect()
            while not self.problem:
                found = agent.ask("gpu_use")
                self.problem = found["problem"]
                if found["gpus"]:
                    self.samples.append(found["gpus"])
                if self._over.wait(EVERY_S):
                    break
            agent.close()
        except DdopsError as error:
            self.problem = error.what

    def found(self) -> dict[str, Any] | None:
        """Returns the figures over all samples, None where nothing was asked."""
        return summary(self.samples, self.problem) if self._connect else None


def summary(samples: Sequence[Sequence[dict[str, Any]]], problem: str) -> dict[str, Any]:
    """Returns medians over the samples: watts of all GPUs together and their limit, per cent of time that kernels ran
    and that memory was read or written, the mean over the GPUs; and ``verdict``, in words. None: not known.
    """
    power, limit = _over(samples, "power.draw", sum), _over(samples, "power.limit", sum)
    busy, memory = _over(samples, "utilization.gpu", mean), _over(samples, "utilization.memory", mean)
    return {
        "samples": len(samples),
        "problem": problem,
        "power_w": power,
        "power_limit_w": limit,
        "busy_percent": busy,
        "memory_percent": memory,
        "verdict": verdict(power, limit, busy, memory),
    }


def _over(
    samples: Sequence[Sequence[dict[str, Any]]], field: str, together: Callable[[list[float]], float]
) -> float | None:
    rows = [[gpu[field] for gpu in sample] for sample in samples]
    whole = [together(row) for row in rows if row and None not in row]
    return median(whole) if whole else None


def verdict(power: float | None, limit: float | None, busy: float | None, memory: float | None) -> str:
    """Returns what bounds the load, as far as the driver's figures can tell; the limits are in this module's head."""
    if busy is None or memory is None:
        return "unknown: the driver tells no utilisation"
    if busy < _BUSY:
        return "not bandwidth-bound: the GPUs wait for the host or for requests"
    if power is not None and limit and power >= limit * _POWER / 100:
        return "power-bound: the GPUs are at their power limit"
    if memory >= _BANDWIDTH:
        return "bandwidth-bound: memory is busy most of the time, power is not at its limit"
    return "not bandwidth-bound: memory is idle part of the time"
