"""The command line: one module a verb. This one puts them together and imports none of them early."""

from __future__ import annotations

import os
import sys

from .. import __version__


def main() -> None:
    """Runs ``ddops``; ends the process with the documented exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        sys.stdout.write(f"ddops {__version__}\n")
        return
    from .app import end, run

    # at once: to take the modules apart and to join paramiko's threads would take 0.1 s more
    os._exit(end(run(sys.argv[1:])))
