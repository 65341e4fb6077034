"""What is kept from the disk for the way back: bytes and inodes that a full disk would not have.

A rollback is filed as a file, what boots is renamed by way of a new link, pointers are written aside, and an engine
makes sockets and caches at its start. Whoever needs that on a full disk spends all of it.
"""

from __future__ import annotations

import os
import shutil

from .layout import Layout

BYTES, INODES = 16 << 20, 128


def keep(layout: Layout) -> None:
    """Sets bytes and inodes aside where that has not been done; raises OSError where the disk has no room for it."""
    if layout.reserve.exists():
        return
    aside = layout.root / ".reserve.tmp"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    try:
        for number in range(INODES):
            (aside / f"{number:03d}").touch()
        with open(aside / "000", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, BYTES)
        os.replace(aside, layout.reserve)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def spend(layout: Layout) -> bool:
    """Gives what was set aside to whoever needs it now; says whether there was any."""
    there = layout.reserve.exists()
    shutil.rmtree(layout.reserve, ignore_errors=True)
    return there


def spend_if_short(layout: Layout) -> bool:
    """Spends it where the disk has less than that; says whether it did."""
    disk = os.statvfs(layout.root)
    short = disk.f_bavail * disk.f_frsize < BYTES or (disk.f_files and disk.f_favail < INODES)
    return bool(short) and spend(layout)
