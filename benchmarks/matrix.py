"""Every step of adopt, deploy and rollback, and at each step everything of ``disturbances``, once.

That these are all steps is seen from an operation that nothing disturbs. A cell has passed when the host is on a
healthy release with nobody's help, its client ended as it must, nothing of another release is left, and the next
operation works. Seconds are counted from the disturbance to a right answer at the public port and an outcome, which is
stored or, on a full disk, waits to be; a power cut has the host's boot in them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from ddops.agent.promote import KEPT_PROMOTED, PROMOTED
from ddops.lab.options import Disk
from tests.lab.service_host import STATE, ServiceHost, wait_for

from .command import served
from .disturbances import ALL, Disturbance

STEPS = {
    "deploy": (
        *("preflight", "drain", "record", "stop", "switch", "load", "ready", "smoke"),
        *("lossless", "acceptance", "throughput", "open", "soak", "promote", "prune"),
    ),
    "rollback": ("drain", "stop", "return", "promote"),
    "adopt": ("inspect", "store", "smoke", "record", "enable"),
}
CELLS = tuple((operation, step, name) for operation, steps in STEPS.items() for step in steps for name in ALL)
DISK = Disk("ext4", "96M")  # real inodes and real syncs, and soon full
DAY = "DDOPS_MATRIX_DAY"  # another day's sample
_WAIT_S = 60
_LOST = 6  # the client's exit code where it gives up
_SUPERVISOR = "ddops-supervisor@lab.service"
_GOOD = ("promoted", "rolled-back", "unchanged")


@dataclass(frozen=True)
class Cell:
    """One operation, disturbed once; ``problem`` is '' where everything held.

    ``code`` is what its client ended with, None where it was killed, and ``client_s`` when, from the disturbance on.
    """

    operation: str
    step: str
    disturbance: str
    outcome: str
    seconds: float
    code: int | None
    client_s: float
    problem: str


class Matrix:
    """One host, and the operations that are begun on it one after another."""

    def __init__(self, host: ServiceHost) -> None:
        self._host = host
        self._budget = 8
        self._good = [1]  # promoted releases, the one that serves last

    def undisturbed(self, operation: str) -> None:
        """Runs an operation; raises AssertionError where it has a step that is not known here."""
        self._ready(operation)
        number = self._begin(operation)
        outcome = wait_for(lambda: self._host.outcome(number), _WAIT_S, "an operation that nothing disturbs")
        self._end_clients()
        self._learn(operation, outcome["outcome"])
        seen = {str(e["step"]) for e in self._host.steps(number) if e["event"] == "step"}
        assert seen <= set(STEPS[operation]), seen  # noqa: S101

    def _begin(self, operation: str, *more: str) -> int:
        """Starts a client; returns its operation's number."""
        number = self._next(operation)
        if operation == "deploy":
            self._budget = self._budget % 60 + 1
            self._host.start_deploy(self._budget, "--force", *more)
        elif operation == "rollback":
            self._host.start("rollback", "--to", str(self._good[0]), *more)
        else:  # on a host that was made to forget that it did so before
            self._host.start("adopt", "sglang.service", *more)
        return number

    def _ready(self, operation: str, step: str = "") -> None:
        """Makes the host such that the operation can be begun, and has that step."""
        while len(self._good) < 2 if operation == "rollback" else step == "prune" and self._promoted() <= KEPT_PROMOTED:
            self.undisturbed("deploy")
        if operation == "deploy":  # known-good is asked for its answers only where they are not known yet
            self._host.on("sh", "-c", f"rm -f {STATE}/references/*")
        elif operation == "adopt":
            self._host.on("sh", "-c", _FORGET)
            wait_for(lambda: self._host.ask() == "Paris", _WAIT_S, "the hand-made unit serves")

    def _promoted(self) -> int:
        """Counts the releases that were promoted here; one more than are kept beside known-good, and one must go."""
        return len(self._host.on("find", f"{STATE}/releases", "-name", PROMOTED).split())

    def _next(self, operation: str) -> int:
        if operation == "adopt":
            return 1
        return int(self._host.on("sh", "-c", f"ls {STATE}/operations | grep request | tail -1")[:6]) + 1

    # ---- one cell

    def cell(self, operation: str, step: str, name: str) -> Cell:
        """Runs an operation and disturbs it at the beginning of a step."""
        host, disturbance = self._host, ALL[name]
        self._ready(operation, step)
        held = host.at_step("STOP", self._next(operation), step)
        number = self._begin(operation, "--patience", disturbance.patience)
        client = host.clients[-1]
        held.wait(4 * _WAIT_S)
        began = time.monotonic()
        disturbance.strike(host)
        host.on("systemctl", "kill", "-s", "CONT", _SUPERVISOR, check=False)
        outcome: dict[str, Any] = {"outcome": "none"}
        code, client_s, seconds, problem = None, 0.0, 0.0, ""
        try:
            try:
                self._comes_to_rest(number, disturbance)
                seconds = time.monotonic() - began
                time.sleep(max(0.0, began + disturbance.lasts_s - time.monotonic()))
                if disturbance.gives_up:
                    code, client_s = self._client(client, began)
            finally:
                disturbance.undo(host)
            outcome = wait_for(lambda: host.outcome(number), _WAIT_S, "an outcome")
            wait_for(lambda: host.ask() == "Paris", _WAIT_S, "a right answer")
            if not disturbance.gives_up:
                code, client_s = self._client(client, began)
            self._learn(operation, outcome["outcome"])
            self._whole(operation, number, outcome)
            self._ended_as_it_must(disturbance, outcome, code)
        except AssertionError as error:
            problem = str(error)[:300] or "an assertion"
        self._end_clients()
        said = outcome["outcome"]
        return Cell(operation, step, name, said, round(seconds, 2), code, round(client_s, 2), problem)

    def _comes_to_rest(self, number: int, disturbance: Disturbance) -> None:
        """Waits until the host has done what it can while it is disturbed."""
        host = self._host
        wait_for(lambda: host.outcome(number) or (disturbance.disk and self._waits()), _WAIT_S, "an end")
        if not disturbance.network:
            wait_for(lambda: host.ask() == "Paris", _WAIT_S, "a right answer")

    def _waits(self) -> bool:
        """Says whether the supervisor is done with the operation: its thread has ended."""
        pid = self._host.main_pid(_SUPERVISOR)
        return "Threads:\t1\n" in (self._host.file(f"/proc/{pid}/status") or "")

    @staticmethod
    def _client(client: Any, began: float) -> tuple[int | None, float]:
        client.communicate(timeout=4 * _WAIT_S)
        return (None if client.returncode < 0 else client.returncode), time.monotonic() - began

    def _end_clients(self) -> None:
        self._host.end_clients()
        self._host.clients.clear()

    def _learn(self, operation: str, outcome: str) -> None:
        if operation == "deploy" and outcome == "promoted":
            self._good = [self._good[-1], int(self._host.pointer("known-good") or 0)]
        if operation == "rollback" and outcome in _GOOD:
            self._good.reverse()

    def _whole(self, operation: str, number: int, outcome: dict[str, Any]) -> None:
        host = self._host
        if operation != "adopt":
            host.assert_whole(self._good[-1])
        elif outcome["outcome"] == "adopted":
            assert host.pointer("known-good") == host.pointer("live") == 0  # noqa: S101 - what a cell has to prove
            assert host.boots() == "sglang.service"  # noqa: S101
        else:
            assert host.on("ls", f"{STATE}/releases", check=False).split() == []  # noqa: S101
            assert host.on("systemctl", "is-enabled", "sglang.service", check=False).strip() == "enabled"  # noqa: S101
        status = host.ddops("status").document
        assert status["under_way"] is None, status["under_way"]  # noqa: S101
        told = [(o["operation"], o["outcome"]) for o in status["last"]]
        assert told == [(number, outcome["outcome"])], told  # noqa: S101

    @staticmethod
    def _ended_as_it_must(disturbance: Disturbance, outcome: dict[str, Any], code: int | None) -> None:
        good = {"promoted": 0, "adopted": 0, "rolled-back": 3, "unchanged": 0, "refused": 5}
        if outcome["kind"] == "rollback":
            good["rolled-back"] = 0
        wanted = _LOST if disturbance.gives_up else good.get(outcome["outcome"], 4)
        assert code in (None, wanted), f"the client ended with {code}, not with {wanted}"  # noqa: S101


# on a full disk journald would make room again, for all
_KEEPS_ITS_SPACE = "[Journal]\nSystemMaxUse=8M\nSystemKeepFree=1K\n"
_FORGET = """
systemctl stop ddops-supervisor@lab.service lab-front.socket lab-front.service 'lab-0*.service' 2>/dev/null
cd /etc/systemd/system && rm -rf lab.service lab-0* multi-user.target.wants/lab.service \
  multi-user.target.wants/ddops-supervisor@lab.service /var/lib/ddops/lab /run/ddops/lab /run/systemd/system/lab-0*
systemctl daemon-reload
systemctl enable --now sglang.service
"""


def today() -> int:
    """Returns the number of the day that the sample is chosen by."""
    return int(os.environ.get(DAY) or date.today().toordinal())  # noqa: DTZ011 - any day will do


def sample(day: int, size: int = 2) -> tuple[tuple[str, str, str], ...]:
    """Returns the cells of a day, so that all have had theirs after some weeks."""
    return tuple(CELLS[(day * size + at) % len(CELLS)] for at in range(size))


def summary(cells: list[Cell]) -> list[str]:
    """Returns a line for each operation and disturbance: cells, outcomes, seconds, and how the clients ended."""
    lines = []
    for operation, disturbance in dict.fromkeys((c.operation, c.disturbance) for c in cells):
        of = [c for c in cells if (c.operation, c.disturbance) == (operation, disturbance)]
        seconds = sorted(c.seconds for c in of)
        worst = max(of, key=lambda c: c.seconds)
        ended = ", ".join(f"{sum(c.outcome == o for c in of)} {o}" for o in dict.fromkeys(c.outcome for c in of))
        codes = ", ".join(str(code) for code in sorted({c.code for c in of if c.code is not None})) or "-"
        lines.append(
            f"| {operation} | {disturbance} | {len(of)} | {ended} | {seconds[len(seconds) // 2]:.1f} "
            f"| {worst.seconds:.1f} ({worst.step}) | {codes} | {max(c.client_s for c in of):.1f} "
            f"| {sum(bool(c.problem) for c in of)} |"
        )
    return lines


def main() -> None:
    """Runs the matrix on a lab host and prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", nargs="*", default=list(STEPS), choices=STEPS)
    parser.add_argument("--steps", nargs="*", metavar="STEP", help="these steps only")
    parser.add_argument("--disturbances", nargs="*", default=list(ALL), choices=ALL)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args()
    cells: list[Cell] = []
    with served(DISK) as host:
        host.write("/etc/systemd/journald.conf.d/full.conf", _KEEPS_ITS_SPACE)
        host.on("systemctl", "restart", "systemd-journald")
        matrix = Matrix(host)
        for operation in asked.operations:
            matrix.undisturbed(operation)
            for each, step, name in CELLS:
                if each == operation and name in asked.disturbances and step in (asked.steps or [step]):
                    cells.append(matrix.cell(operation, step, name))
                    sys.stderr.write(f"{cells[-1]}\n")
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    if asked.json:
        sys.stdout.write(json.dumps({"load": load, "cells": [asdict(c) for c in cells]}, indent=1) + "\n")
    else:
        sys.stdout.write("\n".join([*summary(cells), f"load average at the end: {load}"]) + "\n")
    sys.exit(any(c.problem for c in cells))


if __name__ == "__main__":
    main()
