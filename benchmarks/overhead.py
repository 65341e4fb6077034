"""A deploy's own overhead: its wall time without the engine's stop, load and gates, and the soak.

The wall time is the client's whole process, from its start to its end. The engine's share is what the
host's step log gives for the steps in ENGINE; the scripted engine loads at once, so that little can hide
in them, and the whole wall time stands beside.
"""

from __future__ import annotations

import time

from tests.lab.service_host import Ran, ServiceHost

from .command import main
from .figures import Figure

ENGINE = ("record", "stop", "load", "ready", "smoke", "lossless", "acceptance", "throughput", "soak")
_BUDGETS = (9, 10)
TITLE = "own overhead of a deploy"


def measure(host: ServiceHost, repeats: int) -> list[Figure]:
    """Deploys two budgets in turn, each followed by a deploy of what is live already."""
    host.script(**{f"w{budget + 1}": {"load_s": 0} for budget in _BUDGETS})
    own, whole, unchanged = [], [], []
    steps: dict[str, list[float]] = {}
    for turn in range(repeats):
        budget = _BUDGETS[turn % 2]
        seconds, ran = deploy(host, budget)
        expect(ran, "promoted")
        whole.append(seconds)
        own.append(seconds - sum(s["seconds"] for s in ran.document["steps"] if s["step"] in ENGINE))
        for step in ran.document["steps"]:
            steps.setdefault(step["step"], []).append(step["seconds"])
        seconds, ran = deploy(host, budget)
        expect(ran, "unchanged")
        unchanged.append(seconds)
    return [
        Figure("a change, own overhead", "s", own, 1.0),
        Figure("no change", "s", unchanged, 0.5),
        Figure("a change, whole", "s", whole),
        *(Figure(f"  step {name}", "s", values) for name, values in steps.items()),
    ]


def deploy(host: ServiceHost, budget: int) -> tuple[float, Ran]:
    """Deploys with hardly any soak; returns the seconds of the whole command, and what it said."""
    began = time.monotonic()
    ran = host.ddops("deploy", host.profile, "--budget", str(budget), "--soak", "0.1s")
    return time.monotonic() - began, ran


def expect(ran: Ran, outcome: str) -> None:
    """Ends the benchmark where a deploy came out otherwise."""
    if ran.document.get("outcome") != outcome:
        raise SystemExit(f"a deploy was to be {outcome}: {ran}")


if __name__ == "__main__":
    main(TITLE, measure, 10)
