"""Reaching hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..site import HostEntry
from .base import Host

if TYPE_CHECKING:
    from .keys import Keys


def connect(name: str, entry: HostEntry) -> Host:
    """Returns the host; nothing is sent before its first command, and nobody is asked for anything."""
    return connector(name, entry, lambda _: None)()


def connector(name: str, entry: HostEntry, ask: Callable[[Path], str | None]) -> Callable[[], Host]:
    """Returns what makes a host each time anew; ``ask`` is asked for the passphrase of a key at the first time only.

    It returns None where there is nobody to ask.
    """
    if entry.address == "local":
        from .local import LocalHost

        return LocalHost
    keys: list[Keys] = []

    def made() -> Host:
        from .keys import Keys
        from .ssh import SshHost  # Fabric costs 0.2 s to import

        if not keys:
            keys.append(Keys(ask))
        return SshHost(name, entry, keys[0])

    return made
