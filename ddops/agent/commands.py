"""Asking a command of the host that may hang, even where nothing can kill it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What a command wrote (both streams) and ended with; ``code`` is None where it did not end in time."""

    code: int | None
    text: str

    @property
    def last_line(self) -> str:
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def ask(words: list[str], timeout: float = 10.0) -> Answer:
    """Runs a command for at most ``timeout`` seconds; raises OSError where it cannot be started.

    A process that is stuck in the kernel (nvidia-smi on a lost GPU) is left behind: its end is not waited for.
    """
    with tempfile.TemporaryFile() as output:  # a pipe would stay open as long as any child of it lives
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        code: int | None = None
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
        output.seek(0)
        return Answer(code, output.read().decode(errors="replace"))
