"""Runs the task with each tool in turn: changed, then unchanged. `python -m benchmarks.peers`.

The task: template a unit file, upload it where it differs, daemon-reload, restart the service, wait for its
right answer; where nothing differs, only the answer. Each tool has a service and a port of its own. After
each run the host is looked at: a changed run gave the service another process, an unchanged one did not.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from tests.lab.service_host import ServiceHost

from ..command import arguments, served
from ..figures import Figure, show
from .tools import Tool, install, service_of, timed, tools

TITLE = "the same task with ddops and its peers"
_FIRST_PORT = 42000
_HERE = Path(__file__).parent


def measure(host: ServiceHost, repeats: int) -> list[Figure]:
    """Returns wall time and client CPU of each tool, changed and unchanged, and the CPU of its start."""
    for name in ("answer.py", "ask.py"):
        host.write(f"/opt/{name}", (_HERE / name).read_text())
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="ddops-peers-") as folder:
        listed = tools(host, Path(folder))
        for at, tool in enumerate(listed):
            _run(host, tool, _FIRST_PORT + at, "first", expect_change=True)  # sets up, and warms the caches
        for turn in range(repeats):
            for at, tool in enumerate(listed):
                for kind in ("changed", "unchanged"):
                    wall, cpu = _run(host, tool, _FIRST_PORT + at, f"word{turn}", expect_change=kind == "changed")
                    figures.setdefault(f"{tool.name}: {kind}", []).append(wall)
                    figures.setdefault(f"{tool.name}: {kind}, its CPU", []).append(cpu)
                figures.setdefault(f"{tool.name}: CPU of a start", []).append(timed(tool.version, host.environment)[1])
    return [Figure(name, "s", values) for name, values in sorted(figures.items(), key=lambda item: _order(item[0]))]


def _run(host: ServiceHost, tool: Tool, port: int, word: str, *, expect_change: bool) -> tuple[float, float]:
    before = host.main_pid(service_of(tool))
    found = tool.run(host, port, word)
    after = host.main_pid(service_of(tool))
    if not after or (before != after) is not expect_change:
        raise SystemExit(f"{tool.name} left process {after} where {before} was")
    return found


def _order(name: str) -> tuple[int, str]:
    kinds = ("changed", "unchanged", "changed, its CPU", "unchanged, its CPU", "CPU of a start")
    return kinds.index(name.partition(": ")[2]), name


def ratios(figures: list[Figure]) -> dict[str, float]:
    """Returns how often ddops' median fits into each other tool's."""
    medians = {f.name: statistics.median(f.values) for f in figures}
    return {
        name: medians[name] / medians[f"ddops: {name.partition(': ')[2]}"]
        for name in medians
        if not name.startswith("ddops:")
    }


if __name__ == "__main__":
    asked = arguments(TITLE, 7)
    install()
    with served() as lab_host:
        found = measure(lab_host, asked.repeats)
    show(TITLE, found, as_json=asked.json)
    if not asked.json:
        sys.stdout.write("ratios to ddops\n")
        for name, ratio in ratios(found).items():
            sys.stdout.write(f"{name:40} {ratio:6.1f}\n")
