"""Every step of adopt, deploy and rollback, and at each: the client killed, the supervisor killed, the power cut.

The steps are those that the operation itself logged when nothing disturbed it. A cell has passed when the host is on a
healthy release with nobody's help, nothing of another is left, and the next operation works. Seconds are counted from
the disturbance to a stored outcome and a right answer at the public port; a power cut has the host's boot in them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from tests.lab.service_host import STATE, ServiceHost, wait_for

from .command import served

DISTURBANCES = ("client killed", "supervisor killed", "power cut")
OPERATIONS = ("deploy", "rollback", "adopt")
_WAIT_S = 60


@dataclass(frozen=True)
class Cell:
    """One operation, disturbed once; ``problem`` is '' where everything held."""

    operation: str
    step: str
    disturbance: str
    outcome: str
    seconds: float
    problem: str


class Matrix:
    """One host, and the operations that are begun on it one after another."""

    def __init__(self, host: ServiceHost) -> None:
        self._host = host
        self._budget = 8
        self._good = [1]  # promoted releases, the one that serves last

    def cells(self, operation: str, disturbances: tuple[str, ...], every: int) -> list[Cell]:
        """Runs every ``every``-th step's cells of an operation."""
        begin: Callable[[], int] = getattr(self, f"_{operation}")
        steps = self._steps(begin())
        self._learn(operation, "promoted")
        found = []
        for step in steps[::every]:
            for disturbance in disturbances:
                cell = self._cell(operation, begin, step, disturbance)
                sys.stderr.write(f"{cell}\n")
                found.append(cell)
        return found

    # ---- beginnings: each returns its operation's number, and the client is under way

    def _deploy(self) -> int:
        number, self._budget = self._next(), self._budget % 60 + 1
        self._host.start_deploy(self._budget, "--force")
        return number

    def _rollback(self) -> int:
        number = self._next()
        self._host.start("rollback", "--to", str(self._good[0]))
        return number

    def _adopt(self) -> int:
        """Adopts the hand-made unit anew, on a host that knows nothing of ddops."""
        self._host.on("sh", "-c", _FORGET)
        wait_for(lambda: self._host.ask() == "Paris", _WAIT_S, "the hand-made unit serves")
        self._host.start("adopt", "sglang.service")
        return 1

    def _next(self) -> int:
        return int(self._host.on("sh", "-c", f"ls {STATE}/operations | grep request | tail -1")[:6]) + 1

    # ---- one cell

    def _steps(self, operation: int) -> list[str]:
        wait_for(lambda: self._host.outcome(operation), _WAIT_S, "an operation that nothing disturbs")
        self._end_clients()
        return [str(e["step"]) for e in self._host.steps(operation) if e["event"] == "step"]

    def _cell(self, operation: str, begin: Callable[[], int], step: str, disturbance: str) -> Cell:
        host = self._host
        # a supervisor that is not there yet cannot be watched: its file is, which the watcher waits for
        if operation == "adopt" and disturbance != "client killed":
            number = begin()
            began = self._disturb_when_there(number, step, disturbance)
        elif disturbance == "client killed":
            number = begin()
            wait_for(lambda: host.began(step, number), _WAIT_S, step)
            host.clients[-1].send_signal(signal.SIGKILL)
            began = time.monotonic()
        else:
            watcher = host.at_step("KILL" if disturbance == "supervisor killed" else "STOP", self._next(), step)
            number = begin()
            watcher.wait(4 * _WAIT_S)
            began = self._cut() if disturbance == "power cut" else time.monotonic()
        problem, outcome = "", {"outcome": "none"}
        try:
            outcome = wait_for(lambda: host.outcome(number), _WAIT_S, "an outcome")
            wait_for(lambda: host.ask() == "Paris", _WAIT_S, "a right answer")
            seconds = time.monotonic() - began
            self._learn(operation, outcome["outcome"])
            self._whole(operation, outcome["outcome"])
        except AssertionError as error:
            seconds, problem = time.monotonic() - began, str(error)[:200] or "an assertion"
        self._end_clients()
        return Cell(operation, step, disturbance, outcome["outcome"], round(seconds, 2), problem)

    def _end_clients(self) -> None:
        self._host.end_clients()
        self._host.clients.clear()

    def _disturb_when_there(self, number: int, step: str, disturbance: str) -> float:
        wait_for(lambda: self._host.began(step, number), _WAIT_S, step)
        if disturbance == "power cut":
            return self._cut()
        self._host.on("systemctl", "kill", "-s", "KILL", "ddops-supervisor@lab.service")
        return time.monotonic()

    def _cut(self) -> float:
        began = time.monotonic()
        self._host.lab.crash(self._host.name)
        self._host.lab.start(self._host.name)
        return began

    def _learn(self, operation: str, outcome: str) -> None:
        if operation == "deploy" and outcome == "promoted":
            self._good = [self._good[-1], int(self._host.pointer("known-good") or 0)]
        if operation == "rollback" and outcome in ("promoted", "rolled-back", "unchanged"):
            self._good.reverse()

    def _whole(self, operation: str, outcome: str) -> None:
        host = self._host
        if operation != "adopt":
            host.assert_whole(self._good[-1])
        elif outcome == "adopted":
            assert host.pointer("known-good") == host.pointer("live") == 0  # noqa: S101 - what a cell has to prove
            assert host.boots() == "sglang.service"  # noqa: S101
        else:
            assert host.on("ls", f"{STATE}/releases").split() == []  # noqa: S101
            assert host.on("systemctl", "is-enabled", "sglang.service", check=False).strip() == "enabled"  # noqa: S101


_FORGET = """
systemctl stop ddops-supervisor@lab.service lab-front.socket lab-front.service 'lab-0*.service' 2>/dev/null
cd /etc/systemd/system && rm -rf lab.service lab-0* multi-user.target.wants/lab.service \
  multi-user.target.wants/ddops-supervisor@lab.service /var/lib/ddops/lab /run/ddops/lab /run/systemd/system/lab-0*
systemctl daemon-reload
systemctl enable --now sglang.service
"""


def summary(cells: list[Cell]) -> list[str]:
    """Returns a line for each operation and disturbance: cells, outcomes, the median and the worst seconds."""
    lines = []
    for operation, disturbance in dict.fromkeys((c.operation, c.disturbance) for c in cells):
        of = [c for c in cells if (c.operation, c.disturbance) == (operation, disturbance)]
        seconds = sorted(c.seconds for c in of)
        ended = ", ".join(f"{sum(c.outcome == o for c in of)} {o}" for o in dict.fromkeys(c.outcome for c in of))
        failed = sum(bool(c.problem) for c in of)
        worst = max(of, key=lambda c: c.seconds)
        lines.append(
            f"| {operation} | {disturbance} | {len(of)} | {ended} | {seconds[len(seconds) // 2]:.1f} "
            f"| {worst.seconds:.1f} ({worst.step}) | {failed} |"
        )
    return lines


def main() -> None:
    """Runs the matrix on a lab host and prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", nargs="*", default=OPERATIONS, choices=OPERATIONS)
    parser.add_argument("--disturbances", nargs="*", default=DISTURBANCES, choices=DISTURBANCES)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th step only")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args()
    cells: list[Cell] = []
    with served() as host:
        matrix = Matrix(host)
        host.on("true")
        for operation in asked.operations:
            if operation == "rollback":
                matrix.cells("deploy", (), 1)  # a second promoted release
            cells += matrix.cells(operation, tuple(asked.disturbances), asked.every)
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    if asked.json:
        sys.stdout.write(json.dumps({"load": load, "cells": [asdict(c) for c in cells]}, indent=1) + "\n")
    else:
        sys.stdout.write("\n".join([*summary(cells), f"load average at the end: {load}"]) + "\n")
    sys.exit(any(c.problem for c in cells))


if __name__ == "__main__":
    main()
