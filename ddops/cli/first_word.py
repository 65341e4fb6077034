"""The first word on a terminal, before anything heavy is imported: to import it all takes longer than people wait."""

from __future__ import annotations

import os
import sys

VERBS = frozenset(
    [
        "adopt",
        "bench",
        "confirm",
        "deploy",
        "diff",
        "doctor",
        "eval",
        "evidence",
        "history",
        "logs",
        "pause",
        "resume",
        "rollback",
        "status",
        "sweep",
        "watch",
    ]
)


def say(arguments: list[str]) -> None:
    """Says at once what a command that goes to a host begins with; nothing to pipes, dumb terminals and for help."""
    verb = arguments[0] if arguments else ""
    if verb not in VERBS or {"-h", "--help"} & set(arguments) or os.environ.get("TERM") == "dumb":
        return
    if not sys.stderr.isatty():
        return
    text = "preparing the load" if "--url" in arguments else "reading the site file"
    sys.stderr.write((text if os.environ.get("NO_COLOR") else f"\033[2m{text}\033[0m") + "\n")
    sys.stderr.flush()
