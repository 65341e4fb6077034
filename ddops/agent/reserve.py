"""What is kept from the disk for the way back: bytes and inodes that a full disk would not have.

A rollback is filed as a file, what boots is renamed by way of a new link, pointers are written aside, and an engine
makes sockets and caches at its start. It is given away bit by bit, since whoever fills a disk soon has taken what comes
free: an engine gets the larger part, the rest is there for its start, the front's, and the pointers at last.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from .errors import NO_ROOM, EngineFault
from .layout import Layout
from .systemd import SystemdError

BYTES, INODES = 16 << 20, 128  # as so many files of one size
_FOR_POINTERS, _FOR_STARTS, _SOME = 32, 64, 8  # the first of the files; how many go at once
_TRY_S = 0.05
Result = TypeVar("Result")


def keep(layout: Layout) -> None:
    """Sets aside what is lacking of it; raises OSError where the disk has no room for the whole."""
    size = BYTES // INODES
    files = [layout.reserve / f"{number:03d}" for number in range(INODES)]
    if not (lacking := [path for path in files if not path.exists() or path.stat().st_size != size]):
        return
    if _short(layout):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(layout.root))
    layout.reserve.mkdir(mode=0o700, exist_ok=True)
    for path in lacking:
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)


def with_room(layout: Layout, write: Callable[[], Result]) -> Result:
    """Writes what can be repeated; on a full disk a file of what is set aside is given for each further try.

    Raises the OSError of the last one where nothing is left.
    """
    return _tries(layout, write, lambda error: isinstance(error, OSError) and error.errno in NO_ROOM, 0)


def start_with_room(layout: Layout, start: Callable[[], Result]) -> Result:
    """Starts a unit, as ``with_room``: systemd makes folders for it, and only says that the start failed."""
    return _tries(layout, start, lambda error: not isinstance(error, OSError) and _short(layout), _FOR_POINTERS)


def _tries(layout: Layout, do: Callable[[], Result], lacks_room: Callable[[Exception], bool], leave: int) -> Result:
    while True:
        try:
            return do()
        except (OSError, EngineFault, SystemdError) as error:
            if not lacks_room(error):
                raise
            time.sleep(_TRY_S)  # whoever fills the disk has just been at it
            if not _give(_files(layout)[leave:][-1:]):
                raise


def spend_if_short(layout: Layout) -> None:
    """Gives some of it, to the step log, where the disk has less than the whole."""
    if _short(layout):
        _give(_files(layout)[-_SOME:])


def spend_on_engine_if_short(layout: Layout) -> bool:
    """Gives the larger part where the disk has less than the whole; says whether it did."""
    return _short(layout) and _give(_files(layout)[_FOR_STARTS:])


def full(layout: Layout) -> bool:
    """Says whether the disk has no byte or no inode left: what is to be stored there waits."""
    disk = os.statvfs(layout.root)
    return not disk.f_bavail or bool(disk.f_files and not disk.f_favail)


def _files(layout: Layout) -> list[Path]:
    return sorted(layout.reserve.glob("*"))


def _give(files: list[Path]) -> bool:
    given = 0
    for path in files:
        with contextlib.suppress(OSError):
            path.unlink()
            given += 1
    return given > 0


def _short(layout: Layout) -> bool:
    disk = os.statvfs(layout.root)
    return bool(disk.f_bavail * disk.f_frsize < BYTES or (disk.f_files and disk.f_favail < INODES))
