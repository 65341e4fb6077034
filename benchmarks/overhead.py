"""A deploy's own overhead: its wall time without the engine's stop, load and gates, and the soak.

The wall time is the client's whole process, from its start to its end. The engine's share is what the
host's step log gives for the steps in ENGINE; the scripted engine loads at once, so that little can hide
in them, and the whole wall time stands beside. The client's CPU is user and system time of its process,
which moves less where other work shares the machine.

With ``--against FOLDER`` another checkout's client runs in turn with this one against the same host. Its
agent is another one, so after each change of clients one deploy is not counted.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.service_host import Ran, ServiceHost

from . import command
from .figures import Figure, show

ENGINE = ("record", "stop", "load", "ready", "smoke", "lossless", "acceptance", "throughput", "soak")
_BUDGETS = (9, 10)
_HERE = Path(__file__).parents[1]
TITLE = "own overhead of a deploy"


@dataclass
class Client:
    """A checkout whose client deploys, and what was measured of it."""

    checkout: Path
    prefix: str
    found: dict[tuple[str, str, float | None], list[float]] = field(default_factory=dict)

    def note(self, name: str, value: float, goal: float | None = None, unit: str = "s") -> None:
        self.found.setdefault((self.prefix + name, unit, goal), []).append(value)

    def figures(self) -> list[Figure]:
        return [Figure(name, unit, values, goal) for (name, unit, goal), values in self.found.items()]


def measure(host: ServiceHost, repeats: int, against: Path | None = None) -> list[Figure]:
    """Deploys two budgets in turn, each followed by a deploy of what is live already; by two clients, if so asked."""
    host.script(**{f"w{budget + 1}": {"load_s": 0} for budget in _BUDGETS})
    clients = [Client(_HERE, "")] if against is None else [Client(against, "before: "), Client(_HERE, "now: ")]
    turn = 0
    for repeat in range(repeats):
        for client in clients if repeat % 2 else reversed(clients):
            if against:
                turn += 1
                deploy(host, _BUDGETS[turn % 2], client)
            turn += 1
            _one(host, _BUDGETS[turn % 2], client)
    return [figure for client in clients for figure in client.figures()]


def _one(host: ServiceHost, budget: int, client: Client) -> None:
    seconds, cpu, ran = deploy(host, budget, client)
    expect(ran, "promoted")
    steps = ran.document["steps"]
    client.note("a change, own overhead", seconds - sum(s["seconds"] for s in steps if s["step"] in ENGINE), 1.0)
    client.note("a change, client's CPU", cpu)
    client.note("a change, whole", seconds)
    for step in steps:
        client.note(f"  step {step['step']}", step["seconds"])
    seconds, cpu, ran = deploy(host, budget, client)
    expect(ran, "unchanged")
    client.note("no change", seconds, 0.5)
    client.note("no change, client's CPU", cpu)


def deploy(host: ServiceHost, budget: int, client: Client | None = None) -> tuple[float, float, Ran]:
    """Deploys with hardly any soak; returns the seconds of the whole command, its CPU seconds, and what it said."""
    spent, began = _cpu(), time.monotonic()
    done = subprocess.run(
        [*host.argv("deploy", host.profile, "--budget", str(budget), "--soak", "0.1s"), "--json"],
        cwd=client.checkout if client else _HERE,
        env=host.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    seconds = time.monotonic() - began
    document: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return seconds, _cpu() - spent, Ran(done.returncode, document, done.stderr)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def expect(ran: Ran, outcome: str) -> None:
    """Ends the benchmark where a deploy came out otherwise."""
    if ran.document.get("outcome") != outcome:
        raise SystemExit(f"a deploy was to be {outcome}: {ran}")


def main() -> None:
    """Runs the benchmark from the command line."""
    parser = command.parser(TITLE, 10)
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout, whose client runs in turn")
    asked = parser.parse_args()
    against: Path | None = asked.against and asked.against.absolute()
    for checkout in filter(None, (_HERE, against)):
        command.compiled(checkout)
    with command.served() as host:
        show(
            f"{TITLE}, load average {os.getloadavg()[0]:.1f}", measure(host, asked.repeats, against), as_json=asked.json
        )


if __name__ == "__main__":
    main()
