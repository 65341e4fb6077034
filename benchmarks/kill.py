"""From the fault line in the journal to the end of the trial's process, on the host, with the client dead.

The line's time is journald's. The end is seen by a watcher in the host that holds a pidfd of the engine and
reads the same clock; the supervisor's own record is not asked. The kill is issued before the process is
gone, so what is measured is an upper bound of it.
"""

from __future__ import annotations

import signal
import subprocess
from typing import Any

from ddops.lab import inside
from tests.lab.service_host import ServiceHost, wait_for

from .command import main
from .figures import Figure

TITLE = "fault line to the end of the trial, the client dead"
_FIRST_BUDGET = 20
_FAULT_AFTER = 80  # answers: the gates need fewer, users give the rest
_WATCHER = """
import os, select, sys, time
fd = os.pidfd_open(int(sys.argv[1]))
print("watching", flush=True)
select.select([fd], [], [])
print(time.time_ns() // 1000, flush=True)
"""


def measure(host: ServiceHost, repeats: int) -> list[Figure]:
    """Breaks one trial for every repetition, each with a budget of its own."""
    budgets = range(_FIRST_BUDGET, _FIRST_BUDGET + repeats)
    host.script(**{f"w{budget + 1}": {"fault_after": _FAULT_AFTER, "load_s": 0} for budget in budgets})
    milliseconds = [_once(host, budget) for budget in budgets]
    return [Figure("fault line to process gone", "ms", milliseconds, 200)]


def _once(host: ServiceHost, budget: int) -> float:
    operation = _newest(host) + 1
    client = host.start("deploy", host.profile, "--budget", str(budget), "--soak", "60s", "--force")
    wait_for(lambda: host.began("soak", operation), 60, "the trial is in its soak")
    client.send_signal(signal.SIGKILL)
    client.wait()
    unit = str(next(e for e in host.steps(operation) if e["event"] == "started")["unit"])
    watcher = subprocess.Popen(
        inside.exec_command(host.lab.host(host.name), "python3", "-c", _WATCHER, str(host.main_pid(unit))),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watcher.stdout is not None  # noqa: S101 - PIPE above
    watcher.stdout.readline()
    wait_for(lambda: host.ask(seconds=30) is None, 60, "a user's request ends with the engine")
    gone_us = int(watcher.communicate(timeout=30)[0])
    outcome = wait_for(lambda: host.outcome(operation), 60, "the host is back on known-good")
    if outcome["outcome"] != "rolled-back":
        raise SystemExit(f"the trial was to be rolled back: {outcome}")
    return (gone_us - _fault_us(host.journal(unit))) / 1000


def _fault_us(journal: list[dict[str, Any]]) -> int:
    found = [int(e["__REALTIME_TIMESTAMP"]) for e in journal if "illegal memory access" in str(e.get("MESSAGE"))]
    return found[0]


def _newest(host: ServiceHost) -> int:
    return int(host.on("sh", "-c", "ls /var/lib/ddops/lab/operations | grep request | tail -1")[:6])


if __name__ == "__main__":
    main(TITLE, measure, 20)
