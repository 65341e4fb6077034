"""Files that a power cut leaves whole: written aside, synced, renamed, the directory synced."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

from .errors import NO_ROOM


def hint(error: OSError, service: str) -> str:
    """Returns the next step where a disk takes nothing, '' for another error."""
    ways = {errno.EROFS: "findmnt -T /var/lib/ddops on the host"}
    ways |= dict.fromkeys(NO_ROOM, "free space on the host: df -h; df -i")
    if way := ways.get(error.errno or 0):
        return f"{way}; systemctl restart {service}.service starts known-good with nothing of ddops"
    return ""


def sync_directory(directory: Path) -> None:
    """Makes the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_so(path: Path, data: bytes, mode: int) -> bool:
    try:
        there = path.lstat()
        return there.st_mode == stat.S_IFREG | mode and there.st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False


def write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replaces a file: readers see the old content or the new, also after a power cut.

    One that is so already is left as it is: what is repeated on a full disk needs room only for what is lacking.
    """
    if _is_so(path, data, mode):
        sync_directory(path.parent)
        return
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_json(path: Path, value: Any, mode: int = 0o600) -> None:
    """Replaces a file by one JSON document."""
    write(path, json.dumps(value, indent=1, sort_keys=True).encode() + b"\n", mode)


def read_json(path: Path) -> Any:
    """Returns the document, or None where there is no file; raises ValueError for a damaged one."""
    with contextlib.suppress(FileNotFoundError):
        return json.loads(path.read_text())
    return None


def link(path: Path, target: str) -> None:
    """Replaces a symbolic link by rename(2); one that leads there already is left as it is."""
    if path.is_symlink() and os.readlink(path) == target:
        return
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    os.replace(aside, path)
    sync_directory(path.parent)


def remove(path: Path) -> None:
    """Removes a file or link that may be gone already."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_directory(path.parent)


def make_directory(path: Path, mode: int) -> None:
    """Makes a directory and its parents; the mode holds for the last one, 0711 for those above."""
    for parent in [*reversed(path.parents), path]:
        if not parent.exists():
            parent.mkdir()
            parent.chmod(mode if parent == path else 0o711)
            sync_directory(parent.parent)
