"""Files that a command reads or will write, and words that it takes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ..errors import UsageError, did_you_mean


@contextlib.contextmanager
def lines(name: str) -> Iterator[IO[bytes]]:
    """Opens a file for its lines as bytes; ``-`` is stdin. UsageError if it cannot be read."""
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"cannot read {name}", error.strerror or str(error)) from None
    with file:
        yield file


def texts(path: Path) -> tuple[str, ...]:
    """Returns the lines of a file that are not empty; UsageError if it cannot be read."""
    try:
        return tuple(line for line in path.read_text().splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}", getattr(error, "strerror", None) or str(error)) from None


def writable(option: str, path: Path | None) -> None:
    """Raises UsageError where a file that is written in the end cannot be: nobody waits for hours to learn that."""
    if path is None:
        return
    folder = path.parent
    if path.is_dir() or not folder.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {folder}"
        raise UsageError(f"{option} {path} cannot be written", why)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"{option} {path} cannot be written", "permission denied")


def phase(word: str) -> None:
    """Raises UsageError unless a word is a phase."""
    from ..agent.faults import PHASES

    if word not in PHASES:
        raise UsageError(f"no phase {word}", "", f"known are: {', '.join(PHASES)}")


def suite(word: str, problems: Path | None) -> None:
    """Raises UsageError unless a word is a suite, and problems of one's own are for the one that has any."""
    from ..evaluate import SUITES

    if word not in SUITES:
        raise UsageError(f"no suite '{word}'", f"known are: {', '.join(SUITES)}", did_you_mean(word, SUITES))
    if problems and word != "coding":
        raise UsageError(f"{word} has no problems", "--problems is for coding")
