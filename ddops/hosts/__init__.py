"""Reaching hosts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DdopsError
from ..site import HostEntry
from .base import Host as Host

if TYPE_CHECKING:
    from .keys import Keys

Ask = Callable[[Path], str | None]


def connector(name: str, entry: HostEntry, ask: Ask) -> Callable[[], Host]:
    """Returns what makes a host each time anew; ``ask`` is asked for the passphrase of a key at the first time only.

    It returns None where there is nobody to ask. Nothing is sent before a host's first command.
    """
    return functools.partial(_made, name, entry, _keys(ask))


def several(entries: Iterable[tuple[str, HostEntry]], ask: Ask) -> list[Host | DdopsError]:
    """Returns for each entry its host, or why there is no way to it; ``ask`` is asked once for each key."""
    keys = _keys(ask)
    found: list[Host | DdopsError] = []
    for name, entry in entries:
        try:
            found.append(_made(name, entry, keys))
        except DdopsError as error:
            found.append(error)
    return found


def _made(name: str, entry: HostEntry, keys: Callable[[], Keys]) -> Host:
    if entry.address == "local":
        from .local import LocalHost

        return LocalHost()
    from .ssh import SshHost  # Fabric costs 0.2 s to import

    return SshHost(name, entry, keys())


def _keys(ask: Ask) -> Callable[[], Keys]:
    @functools.cache
    def made() -> Keys:
        from .keys import Keys

        return Keys(ask)

    return made
