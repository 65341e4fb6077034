"""The one thing that is asked for at a terminal before anybody connects: the passphrase of a key."""

from __future__ import annotations

import sys
from pathlib import Path


def ask(key: Path) -> str | None:
    """Returns the passphrase, which is not shown; None where there is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    import getpass

    return getpass.getpass(f"passphrase of {key}: ", sys.stderr)
