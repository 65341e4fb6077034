"""Serial round trips, counted from outside: the slope of a command's wall time over an added network delay.

A command that waits N times for its peer becomes N times the added round trip slower. Nothing in ddops
counts for this. The lab delays every packet to and from the host; the engine is asked inside the host.
`ssh HOST true` and Fabric's own connect and `true` stand beside: a connection needs round trips of its own.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from ddops.lab import inside
from tests.lab.service_host import ServiceHost

from .command import main
from .figures import Figure
from .overhead import deploy, expect

TITLE = "serial round trips, from the slope of the wall time over an added delay"
DELAYS_MS = (1, 60, 120)  # each way
_BUDGETS = (11, 12)
_CONNECTION = "fabric, true"
_GOALS = (("deploy, a change", 10.0), ("deploy, no change", 4.0))
_FABRIC = """
import sys, fabric
c = fabric.Connection(sys.argv[1], user="root", connect_kwargs={"key_filename": sys.argv[2], "look_for_keys": False,
                                                               "allow_agent": False})
c.run("true", hide=True)
"""


def measure(host: ServiceHost, repeats: int) -> list[Figure]:
    """Returns a slope of each command for every repetition; each repetition runs through all delays."""
    host.script(**{f"w{budget + 1}": {"load_s": 0} for budget in _BUDGETS})
    config = host.lab.config
    budgets = list(_BUDGETS)

    def change() -> None:
        expect(deploy(host, budgets[0])[2], "promoted")
        budgets.reverse()

    def no_change() -> None:
        expect(deploy(host, budgets[1])[2], "unchanged")

    def status() -> None:
        if host.ddops("status").code:
            raise SystemExit("status found the service unhealthy")

    commands: dict[str, Callable[[], object]] = {
        "deploy, a change": change,
        "deploy, no change": no_change,
        "status": status,
        "ssh HOST true": lambda: _run(inside.ssh_command(host.lab.host(host.name), "true")),
        _CONNECTION: lambda: _run([sys.executable, "-c", _FABRIC, host.lab.address(host.name), str(config.key)]),
        "TCP connect (proves the slope: 1)": lambda: _connect(host),
    }
    walls: dict[str, list[list[float]]] = {name: [[] for _ in range(repeats)] for name in commands}
    for turn in range(repeats):
        for delay in DELAYS_MS:
            host.lab.delay(host.name, delay)
            _connect(host)  # the link is another one now: the first packet asks for its address
            for name, run in commands.items():
                began = time.monotonic()
                run()
                walls[name][turn].append(time.monotonic() - began)
    host.lab.heal(host.name)
    trips = [2 * delay / 1000 for delay in DELAYS_MS]
    slopes = {name: [statistics.linear_regression(trips, row).slope for row in rows] for name, rows in walls.items()}
    floor = statistics.median(slopes[_CONNECTION])
    return [
        *(
            Figure(f"{name}, beyond the connection", "trips", [s - floor for s in slopes[name]], goal)
            for name, goal in _GOALS
        ),
        *(Figure(name, "trips", found) for name, found in slopes.items()),
    ]


def _connect(host: ServiceHost) -> None:
    socket.create_connection((host.lab.address(host.name), 22), timeout=10).close()


def _run(argv: list[str]) -> None:
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)


if __name__ == "__main__":
    main(TITLE, measure, 5)
