"""The host's ledger: every verdict in one SQLite file, made of the files that operations and evaluations leave.

Those files are what is true, so the database may be lost, damaged or impossible to write: then what it would say is
read from them, and told as a problem. Nothing that is done to the service waits for it or depends on it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import entries
from .entries import Entry
from .layout import Layout

if TYPE_CHECKING:
    from .database import Database

_TAKEN_S = 3.0  # for another process that brings it up to date


def read(layout: Layout) -> tuple[list[Entry], str]:
    """Returns all entries, the oldest first, and why the database was of no use, '' if it was; changes nothing."""
    try:
        from .database import Database, Unusable

        if not layout.ledger.exists() or not layout.ledger.stat().st_size:  # it is just being made
            return entries.from_files(layout), ""
        try:
            with Database(layout.ledger, write=False) as database:
                found = database.entries()
        except Unusable as error:
            return entries.from_files(layout), f"{layout.ledger}: {error}"
    except ImportError as error:
        return entries.from_files(layout), _no_sqlite(error)
    return entries.in_order(found + _missing(layout, {entry["id"] for entry in found})), ""


def answer(layout: Layout, known: dict[str, int]) -> dict[str, Any]:
    """Brings the ledger up to date; returns its ``id``, the ``entries`` that a copy lacks, and a ``problem`` or ''.

    ``known`` tells, by a ledger's id, the last entry that the copy has of it. Where the database cannot be used the
    id is None, and all entries are there, read from the files.
    """
    try:
        from .database import Unusable

        try:
            with _alone(layout):
                return _repaired(layout, lambda database: _behind(database, known))
        except (Unusable, OSError) as error:
            why = f"{layout.ledger}: {getattr(error, 'strerror', None) or error}"
    except ImportError as error:
        why = _no_sqlite(error)
    return {"id": None, "entries": entries.from_files(layout), "problem": why}


def _no_sqlite(error: ImportError) -> str:
    return f"this host's Python has no SQLite: {error}"


def _behind(database: Database, known: dict[str, int]) -> dict[str, Any]:
    name = database.meta("id")
    after = known.get(name or "", 0)
    # all are read, so that a damaged one is found whoever asks
    return {"id": name, "entries": [entry for entry in database.entries() if entry["seq"] > after]}


def _repaired(layout: Layout, use: Callable[[Database], dict[str, Any]]) -> dict[str, Any]:
    """Uses the ledger, up to date; a damaged one is put aside and made anew from the files.

    That is told as long as the damaged one lies there: whoever made it anew had nobody to tell, perhaps.
    """
    from .database import Damaged

    aside = layout.ledger.with_name("ledger.db.damaged")
    try:
        found = _up_to_date(layout, use)
    except Damaged:
        os.replace(layout.ledger, aside)
        Path(f"{layout.ledger}-journal").unlink(missing_ok=True)
        found = _up_to_date(layout, use)
    why = f"it was damaged and was made anew from the operations' files; {aside} is what it was, remove it to end this"
    return {**found, "problem": why if aside.exists() else ""}


def _up_to_date(layout: Layout, use: Callable[[Database], dict[str, Any]]) -> dict[str, Any]:
    from .database import Database

    with Database(layout.ledger, write=True) as database:
        missing = _missing(layout, database.ids())
        # another id for another file: the numbers of its entries are others, too
        named = {} if database.meta("id") else {"id": os.urandom(16).hex()}
        if missing or named:
            database.add(missing, **named)
        return use(database)


def _missing(layout: Layout, ids: set[str]) -> list[Entry]:
    behind = entries.files(layout).items()
    return entries.in_order([entry for name, path in behind if name not in ids and (entry := entries.read(name, path))])


@contextlib.contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """Keeps other processes of ddops from the database; raises OSError where one has it for too long."""
    # whoever can read a lock can hold it
    with open(os.open(layout.root / "ledger.lock", os.O_RDWR | os.O_CREAT, 0o600), "rb") as lock:
        end = time.monotonic() + _TAKEN_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
        yield
