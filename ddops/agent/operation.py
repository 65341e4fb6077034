"""One operation in the supervisor's hands: its request, its step log, and what interrupts it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from . import processes, reserve
from .errors import NO_ROOM, Cancelled, EngineFault, GateFailed
from .fault import Fault
from .layout import Layout
from .seen import Seen
from .steplog import StepLog
from .systemd import Unit

if TYPE_CHECKING:
    from .watch import EngineWatch

TICK_S = 0.05
Result = TypeVar("Result")


class Operation:
    """Runs in a thread of its own while the supervisor's main thread calls ``look``.

    ``look`` reads the journal of the engine under watch and kills a trial at its first fault; the operation's own code
    learns of that at its next ``check``. What is no reason to go back, a full disk say, stands in the log as noticed.
    """

    def __init__(self, layout: Layout, request: dict[str, Any], tell: Callable[[str], None] = lambda _: None) -> None:
        self.layout = layout
        self.request = request
        self.log = StepLog(layout, int(request["operation"]), tell)
        self.fault: Fault | None = None
        self.cancelled_by = ""
        self.watched: EngineWatch | None = None
        self._trial = False
        self._uninterruptible = False
        self._mutex = threading.Lock()

    # ---- the operation's own thread

    def watch(self, unit: Unit, *, trial: bool) -> EngineWatch:
        """Puts an engine under watch; a trial is killed at its first fault."""
        from .watch import EngineWatch  # with the table of faults: what a client asks for does without it

        watched = EngineWatch(unit)
        with self._mutex:
            self.fault = None
            self._trial = trial
            self.watched = watched
        return watched

    def unwatch(self) -> None:
        """Ends the watch. A fault that was found stays known; what was seen of the engine, to whoever watches next."""
        with self._mutex:
            watched, self.watched = self.watched, None
        if watched:
            watched.close()
            with contextlib.suppress(OSError):  # no room: the next one counts those that it finds
                Seen(watched.unit.invocation, "", watched.schedulers, watched.fired_up).store(self.layout)

    def shield(self) -> None:
        """From here on nothing interrupts: the way back is under way, or the release is being promoted."""
        with self._mutex:
            self._uninterruptible = True

    def check(self) -> None:
        """Raises EngineFault or Cancelled if the operation must not go on."""
        if self.cancelled_by and not self._uninterruptible:
            raise Cancelled("ended by an operator", f"rollback by {self.cancelled_by}")
        if self.fault:
            raise EngineFault(
                f"fault in the engine: {self.fault.rule}", self.fault.why, evidence={"fault": self.fault.record()}
            )

    def turn_back(self) -> None:
        """Begins the way back: nothing interrupts it, and what the trial did wrong no longer counts."""
        self.shield()
        self.unwatch()
        self.fault = None
        self.log.must_write_ahead = False  # a full disk must not stop what has to be done
        reserve.spend_if_short(self.layout)

    def rather_its_fault(self, judge: Callable[[], Result]) -> Result:
        """Runs a check of the engine; where it fails and the engine has a fault, raises the fault instead.

        A connection that breaks off is what a fault looks like from the other side.
        """
        try:
            result = judge()
        except GateFailed:
            self._give_the_fault_time()
            raise
        self.check()
        return result

    def _give_the_fault_time(self) -> None:
        """Waits for the journal to tell why an engine fell silent; raises if it does."""
        end = time.monotonic() + 10 * TICK_S
        while time.monotonic() < end:
            self.check()
            time.sleep(TICK_S / 5)

    def until(self, met: Callable[[], Any], seconds: float, what: str) -> Any:
        """Waits until ``met`` returns something true and returns it; raises GateFailed after ``seconds``."""
        end = time.monotonic() + seconds
        while True:
            self.check()
            if value := met():
                return value
            if time.monotonic() > end:
                raise GateFailed(f"{what}: not within {seconds:g} s")
            time.sleep(TICK_S)

    def when_there_is_room(self, step: str, act: Callable[[], Any]) -> None:
        """Does what must be done and can be repeated, again and again as long as the disk is full."""
        waits = False
        while True:
            try:
                reserve.with_room(self.layout, act)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                if not waits:
                    waits = True
                    self.log.write("warning", what=f"{step} waits for room on the disk: {error.strerror}")
                time.sleep(1)
            else:
                return

    def progress(self, step: str, text: str) -> None:
        self.log.progress(step, text)

    # ---- the supervisor's main thread

    def descriptors(self) -> list[int]:
        """Returns what tells of news: nothing once a fault was found, since nobody reads on then."""
        watched = self.watched
        return watched.descriptors() if watched and not self.fault else []

    def look(self) -> None:
        """Reads what is new; at the first fault of a trial its whole control group is killed."""
        with self._mutex:
            watched, trial = self.watched, self._trial
            if watched is None or self.fault:
                return
            try:
                fault = watched.poll()
            except Exception as error:  # noqa: BLE001 - whatever it is, the engine is not watched any more
                from .watch import lost

                fault = lost(watched.unit, error)
            began = time.time_ns()
            acted_on = fault
            if fault and trial:
                processes.kill(watched.unit.cgroup)
                fault = watched.cause_of(fault)
            self.fault = fault
            noticed = [watched.noticed.popleft() for _ in range(len(watched.noticed))]
        for each in noticed:
            self.log.write("noticed", **each.record())
        if fault is None or acted_on is None:
            return
        self.log.write(
            "fault",
            **fault.record(),
            killed=trial,
            ms_from_line_to_kill=round((began // 1000 - acted_on.time_us) / 1000, 1),
        )

    def cancel(self, by: str) -> None:
        """Asks the operation to go the way back; a trial is killed at once."""
        with self._mutex:
            if self._uninterruptible or self.cancelled_by:
                return
            self.cancelled_by = by
            watched, trial = self.watched, self._trial
        self.log.write("cancelled", by=by)
        if watched and trial:
            processes.kill(watched.unit.cgroup)
