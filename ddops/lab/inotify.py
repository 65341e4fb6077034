"""Raises fs.inotify.max_user_instances while any lab of this machine has hosts.

The PID 1, logind and dbus of every host share root's instances; the usual 128 are spent at
about 13 hosts. Labs may overlap, so each one signs in under /run, which lives as long as
the setting does, and the last to leave restores the old value.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SETTING = Path("/proc/sys/fs/inotify/max_user_instances")
_WANTED = 4096
_BOOK = Path("/run/ddops-lab")


def raise_limit(lab: str) -> None:
    """Signs `lab` in and raises the limit where it is lower than wanted."""
    with _locked():
        (_BOOK / "labs").mkdir(parents=True, exist_ok=True)
        (_BOOK / "labs" / lab).touch()
        before = int(_SETTING.read_text())
        if before < _WANTED:
            (_BOOK / "before").write_text(str(before))
            _SETTING.write_text(str(_WANTED))


def restore_limit(lab: str) -> None:
    """Signs `lab` out; the last one restores the limit. Nothing where it was not signed in."""
    with _locked():
        if not _BOOK.exists():
            return
        (_BOOK / "labs" / lab).unlink(missing_ok=True)
        if any((_BOOK / "labs").iterdir()):
            return
        before = _BOOK / "before"
        if before.exists():
            _SETTING.write_text(before.read_text())
            before.unlink()
        (_BOOK / "labs").rmdir()
        _BOOK.rmdir()


@contextmanager
def _locked() -> Iterator[None]:
    # the parent folder: a lock file of our own could not be removed without a race
    fd = os.open(_BOOK.parent, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
