"""One SQLite file of ledger entries: the host's own, and the copies that operators have.

Whoever keeps a supervisor small does not import this: sqlite3 costs it more memory than it has left.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import evidence

SCHEMA = 1
_BUSY_S = 5.0  # for somebody who looks into the file with another program
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, ended TEXT NOT NULL, kind TEXT NOT NULL,
  outcome TEXT NOT NULL, verdict TEXT, what TEXT, release INTEGER, drill TEXT,
  profile TEXT, budget INTEGER, graphs INTEGER, algorithm TEXT,
  sglang TEXT, overlay TEXT, environment TEXT, model TEXT, driver TEXT, brief TEXT NOT NULL
);
CREATE TABLE verdicts (
  entry INTEGER NOT NULL REFERENCES entries (seq), gate TEXT NOT NULL, passed INTEGER, what TEXT,
  accept_length REAL, tok_s REAL, evidence TEXT NOT NULL
);
CREATE INDEX verdicts_of_entry ON verdicts (entry);
"""
_PLAIN = ("id", "ended", "kind", "outcome", "verdict", "what", "release", "drill")
# what came later than the schema is read from the brief
_STACK = tuple(key for key in evidence.STACK if key != "drafter")
_COLUMNS = (*_PLAIN, *evidence.SETTINGS, "algorithm", *_STACK)
_OF_VERDICT = ("gate", "passed", "what", "accept_length", "tok_s")


class Unusable(Exception):
    """The file cannot be used now: no room, no right, somebody else has it. It is left as it is."""


class Newer(Unusable):
    """A newer ddops wrote the file."""


class Damaged(Unusable):
    """The file is no whole ledger."""


class Database:
    """An open file. Every method raises Unusable or Damaged where SQLite cannot do it."""

    def __init__(self, path: Path, *, write: bool) -> None:
        """Opens the file; with ``write`` it is made where it is not there, for nobody but its owner to read."""
        with _told():
            if write:
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            mode = "rw" if write else "ro"
            self._sql = sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", _BUSY_S, uri=True, isolation_level=None)
        try:
            with _told():
                self._check(write=write)
        except BaseException:
            self._sql.close()
            raise

    def _check(self, *, write: bool) -> None:
        schema = int(self._one("PRAGMA user_version"))
        if schema > SCHEMA:
            raise Newer(f"a newer ddops wrote it (schema {schema}, this one knows {SCHEMA})")
        tables = {name for (name,) in self._sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if write and schema == 0 and not tables:
            self._sql.executescript(f"BEGIN IMMEDIATE;{_TABLES}PRAGMA user_version = {SCHEMA};COMMIT;")
        elif schema != SCHEMA or not {"meta", "entries", "verdicts"} <= tables:
            raise Damaged("it holds no ledger")
        if (said := self._one("PRAGMA quick_check(1)")) != "ok":
            raise Damaged(str(said))

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._sql.close()

    def _one(self, query: str, *values: Any) -> Any:
        row = self._sql.execute(query, values).fetchone()
        return row[0] if row else None

    def ids(self) -> set[str]:
        """Returns the ids of all entries."""
        with _told():
            return {name for (name,) in self._sql.execute("SELECT id FROM entries")}

    def meta(self, name: str) -> str | None:
        """Returns what is noted under a name."""
        with _told():
            found = self._one("SELECT value FROM meta WHERE name = ?", name)
        return None if found is None else str(found)

    def add(self, entries: Iterable[dict[str, Any]], **meta: str) -> None:
        """Adds the entries that are not there yet, and notes; all of it or nothing. A ``seq`` is kept."""
        with _told():
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                for entry in entries:
                    self._add(entry)
                for name, value in meta.items():
                    self._sql.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._sql.execute("ROLLBACK")
                raise
            self._sql.execute("COMMIT")

    def _add(self, entry: dict[str, Any]) -> None:
        names = ", ".join(("seq", *_COLUMNS, "brief"))
        values = [entry.get("seq"), *(_storable(entry[column]) for column in _COLUMNS), json.dumps(entry["brief"])]
        marks = ", ".join("?" * len(values))
        done = self._sql.execute(f"INSERT OR IGNORE INTO entries ({names}) VALUES ({marks})", values)  # noqa: S608
        if done.rowcount != 1:
            return  # another process was faster
        for verdict in entry["verdicts"]:
            row = [done.lastrowid, *(_storable(verdict[key]) for key in _OF_VERDICT), json.dumps(verdict["evidence"])]
            self._sql.execute("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def entries(self) -> list[dict[str, Any]]:
        """Returns the entries with their verdicts, in the order in which they were added."""
        columns = ", ".join(("seq", *_COLUMNS, "brief"))
        with _told(ValueError, TypeError):
            rows = self._sql.execute(f"SELECT {columns} FROM entries ORDER BY seq")  # noqa: S608
            found = {row[0]: dict(zip(("seq", *_COLUMNS), row)) | _rest(row) for row in rows}
            of = ", ".join(("entry", *_OF_VERDICT, "evidence"))
            rows = self._sql.execute(f"SELECT {of} FROM verdicts ORDER BY rowid")  # noqa: S608
            for seq, *values, evidence_text in rows:
                verdict: dict[str, Any] = dict(zip(_OF_VERDICT, values))
                verdict |= {"passed": _truth(verdict["passed"]), "evidence": json.loads(evidence_text)}
                if seq in found:
                    found[seq]["verdicts"].append(verdict)
        return list(found.values())


def _rest(row: tuple[Any, ...]) -> dict[str, Any]:
    graphs, brief = row[1 + _COLUMNS.index("graphs")], json.loads(row[-1])
    later = {"max_running": evidence.max_running(brief), "drafter": evidence.drafter(brief)}
    return {"graphs": _truth(graphs), **later, "brief": brief, "verdicts": []}


def _storable(value: Any) -> Any:
    """Returns a value that SQLite takes: a journal's line may hold what is no character."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _truth(value: int | None) -> bool | None:
    return None if value is None else bool(value)


@contextlib.contextmanager
def _told(*damage: type[Exception]) -> Iterator[None]:
    """Turns what SQLite and the system say into Unusable and Damaged."""
    damages: tuple[type[Exception], ...] = (sqlite3.DatabaseError, *damage)
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise Unusable(getattr(error, "strerror", None) or str(error)) from None
    except damages as error:
        raise Damaged(str(error)) from None
