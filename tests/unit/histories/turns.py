"""Virtual time, and two threads that take turns: a history is the same each time it is told.

The supervisor's main thread and the thread of an operation never run at once. The operation runs until it sleeps,
asks the engine or systemd; then the main thread looks around once, and waits by handing the turn back.
"""

from __future__ import annotations

import heapq
import itertools
import select
import threading
from collections.abc import Callable
from typing import Any


class Died(BaseException):
    """The supervisor's process is gone: everything in memory is lost."""


class PowerCut(Died):
    """The whole host is gone."""


class Idle(BaseException):
    """The supervisor has nothing more to do: the history goes on with what comes next."""


class Turns:
    """Stands for ``time``, ``select`` and ``threading`` in the modules of the agent."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.dead: Died | None = None
        self.nested = 0  # another actor's call inside a crossing: it takes no turns
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._looks = itertools.count()
        self._worker: Worker | None = None
        self._idle = 0

    # ---- time

    def monotonic(self) -> float:
        return self.now

    def perf_counter(self) -> float:
        """Goes on by a hundredth at each look: every stream is as fast as it has tokens in a part."""
        return next(self._looks) / 100

    def time(self) -> float:
        return 1_700_000_000.0 + self.now

    def time_ns(self) -> int:
        return int(self.time() * 1e9)

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        self.hand_over()

    def advance(self, seconds: float) -> None:
        """Lets time pass, with what falls due in it."""
        end = self.now + max(0.0, seconds)
        while self._due and self._due[0][0] <= end:
            at, _, happen = heapq.heappop(self._due)
            self.now = max(self.now, at)
            happen()
        self.now = end

    def at(self, seconds: float, happen: Callable[[], None]) -> None:
        """Has something happen so many seconds from now."""
        heapq.heappush(self._due, (self.now + seconds, next(self._count), happen))

    def forget(self) -> None:
        """Drops what would have happened: a power cut."""
        self._due.clear()

    @property
    def expects(self) -> bool:
        return bool(self._due)

    # ---- turns

    def hand_over(self) -> None:
        """Lets the main thread look around; nothing where it is the main thread that waits."""
        if self._worker is None or self.nested or threading.current_thread() is not self._worker.thread:
            return
        self._worker.gives.release()
        self._worker.takes.acquire()
        if self.dead:
            raise self.dead

    def selects(self, waited: list[Any], _w: list[Any], _x: list[Any], seconds: float) -> Any:
        """Stands for ``select.select`` of the supervisor: the operation's turn, or idleness."""
        if self._worker and self._worker.alive:
            self._idle = 0
            self._worker.turn()
            if self.dead:
                raise self.dead
            return select.select(waited, [], [], 0)
        found = select.select(waited, [], [], 0)
        if found[0]:
            self._idle = 0
            return found
        self._idle += 1
        if self._idle > 3 and not self.expects:
            self._idle = 0
            raise Idle
        self.advance(seconds)
        return found

    def looks(self, waited: list[Any], _w: list[Any], _x: list[Any], seconds: float) -> Any:
        """Stands for ``select.select`` of who reads a journal: nobody else has a turn meanwhile."""
        found = select.select(waited, [], [], 0)
        self.advance(seconds)
        return found

    def thread(self, target: Callable[[], None], name: str) -> Worker:
        self._worker = Worker(self, target, name)
        return self._worker

    def bury(self) -> None:
        """Ends what is left of a life that is over."""
        if self._worker and self._worker.alive:
            self.dead = self.dead or Died()
            while self._worker.alive:
                self._worker.turn()
        self._worker, self.dead, self._idle = None, None, 0


class Worker:
    """Stands for the ``threading.Thread`` of an operation."""

    def __init__(self, turns: Turns, target: Callable[[], None], name: str) -> None:
        self._turns, self._target = turns, target
        self.takes, self.gives = threading.Semaphore(0), threading.Semaphore(0)
        self.alive = False
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.alive = True
        self.thread.start()

    def is_alive(self) -> bool:
        return self.alive

    def join(self) -> None:
        self.thread.join()

    def turn(self) -> None:
        self.takes.release()
        self.gives.acquire()
        if not self.alive:
            self.thread.join()
            if self.error and not isinstance(self.error, Died):
                raise self.error

    def _run(self) -> None:
        self.takes.acquire()
        try:
            if not self._turns.dead:
                self._target()
        except BaseException as error:  # noqa: BLE001 - the main thread's turn to raise it
            self.error = error
        self.alive = False
        self.gives.release()
