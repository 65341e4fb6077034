"""Runs the machine's own tools (ip, mount, ssh-keygen) for the lab."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from ddops.lab.errors import LabError


def run(*args: str | Path, check: bool = True, env: Mapping[str, str] | None = None) -> str:
    """Runs a command to its end and returns what it wrote, stderr included.

    Raises LabError where it is not installed, or ends badly and `check` is true.
    """
    argv = [str(arg) for arg in args]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
        )
    except FileNotFoundError:
        raise LabError(f"{argv[0]} is not installed", "the lab needs it", "ddops lab deps") from None
    if check and done.returncode:
        raise LabError(
            " ".join(argv),
            done.stdout.strip() or f"exit status {done.returncode}",
            "ddops lab down --all",
        )
    return done.stdout
