"""CPU of starting the command line: user and system time of the whole process, as wait4 tells it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .command import arguments
from .figures import Figure, show

TITLE = "CPU of a start"
_DDOPS = str(Path(sys.executable).parent / "ddops")
COMMANDS = {
    "ddops --version": ([_DDOPS, "--version"], 100.0),
    "ddops --help": ([_DDOPS, "--help"], 200.0),
    "ddops deploy --help": ([_DDOPS, "deploy", "--help"], None),
    "python -c pass": ([sys.executable, "-c", "pass"], None),
}


def measure(repeats: int) -> list[Figure]:
    """Runs the commands in turn."""
    spent: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(repeats):
        for name, (argv, _goal) in COMMANDS.items():
            spent[name].append(cpu_ms(argv))
    return [Figure(name, "ms", values, COMMANDS[name][1]) for name, values in spent.items()]


def cpu_ms(argv: list[str]) -> float:
    """Runs a command with its output thrown away; returns its CPU time in milliseconds."""
    nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=[nowhere])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{argv} failed")
    return (usage.ru_utime + usage.ru_stime) * 1000


if __name__ == "__main__":
    asked = arguments(TITLE, 31)
    show(TITLE, measure(asked.repeats), as_json=asked.json)
