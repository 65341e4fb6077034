"""CPU of starting the command line, and how soon a terminal says something while the host is far away.

CPU is user and system time of the whole process, as wait4 tells it. The first word is timed on a terminal of its own,
from the start of the process to the first byte, and to the host's name; every packet takes 150 ms each way.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

from tests.lab.service_host import ServiceHost

from .command import main
from .figures import Figure

TITLE = "the start of a command: CPU, and its first word to a terminal"
_DELAY_MS = 150
_GOAL_MS = 100.0
_DDOPS = str(Path(sys.executable).parent / "ddops")
COMMANDS = {
    "ddops --version": ([_DDOPS, "--version"], 100.0),
    "ddops --help": ([_DDOPS, "--help"], 200.0),
    "ddops deploy --help": ([_DDOPS, "deploy", "--help"], None),
    "python -c pass": ([sys.executable, "-c", "pass"], None),
}
SAYING = {
    "deploy": ("deploy", "lab", "--dry-run"),
    "rollback": ("rollback",),
    "doctor": ("doctor",),
    "status": ("status",),
    "eval": ("eval", "smoke", "--profile", "lab"),
    "bench": ("bench", "--requests", "1", "--tokens", "1", "--repeats", "1", "--warmup", "0"),
    "adopt": ("adopt", "sglang", "--profile", "lab"),  # it is adopted already: refused
    "logs": ("logs",),
}


def measure(host: ServiceHost, repeats: int) -> list[Figure]:
    """Returns the CPU of starts and, for each command of SAYING, when it said something and when it named the host."""
    return [*cpu(repeats), *words(host, repeats)]


def words(host: ServiceHost, repeats: int) -> list[Figure]:
    """Runs commands on a terminal in turn, with the host far away."""
    first: dict[str, list[float]] = {name: [] for name in SAYING}
    named: dict[str, list[float]] = {name: [] for name in SAYING}
    host.lab.delay(host.name, _DELAY_MS)
    for _ in range(repeats):
        for name, args in SAYING.items():
            spoke, told = first_word_ms(host, [_DDOPS, *args, "--host", host.name])
            first[name].append(spoke)
            named[name].append(told)
    host.lab.heal(host.name)
    return [
        *(Figure(f"{name}: first word", "ms", values, _GOAL_MS) for name, values in first.items()),
        *(Figure(f"{name}: host named", "ms", values) for name, values in named.items()),
    ]


def first_word_ms(host: ServiceHost, argv: list[str]) -> tuple[float, float]:
    """Returns the milliseconds until a command has written anything, and until it has named the host."""
    mine, its = pty.openpty()
    environment = {**host.environment, "TERM": "xterm"}
    spoke = told = None
    written, began = b"", time.monotonic()
    with subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=its, stderr=its) as process:
        os.close(its)
        while True:
            try:
                written += os.read(mine, 4096)
            except OSError:  # the command has ended
                break
            now = (time.monotonic() - began) * 1000
            spoke = now if spoke is None else spoke
            told = now if told is None and host.name.encode() in written else told
        process.wait()
    os.close(mine)
    if spoke is None or told is None:
        raise SystemExit(f"{argv} never named the host: {written.decode()}")
    return spoke, told


def cpu(repeats: int) -> list[Figure]:
    """Runs the commands of COMMANDS in turn."""
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
    main(TITLE, measure, 31)
