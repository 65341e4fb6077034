"""A study is a file: a line for what was asked, then one for each thing that happened, synced before the next.

    {"event": "study", ...}     what is studied, where, on which stack
    {"event": "begun", ...}     a cell is about to be deployed, as this release
    {"event": "filed", ...}     the host has it in its hands as this operation
    {"event": "ended", ...}     what came of the cell
    {"event": "lost", ...}      what was begun never reached the host
    {"event": "stopped", ...}   the sweep ended, and why

Whoever goes on reads what is there; a torn last line, of a crash, is left out.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any

from ..agent.durable import sync_directory
from ..copies import data_home
from ..errors import DdopsError, Locked, Refused, UsageError
from .cells import Cell
from .result import Result, of_record

VERSION = 1
# what a study that goes on must have in common with the one that began
_SAME = ("host", "hostname", "service", "profile", "profile_sha256", "stack", "overlay")


@dataclass
class Study:
    """What is known of a study: its head, the newest result of each cell, and a cell that nobody saw end."""

    path: Path
    head: dict[str, Any]
    results: dict[Cell, Result] = field(default_factory=dict)
    open: dict[str, Any] | None = None
    stopped: str = ""
    _file: FileIO | None = None

    @property
    def question(self) -> dict[str, Any]:
        """Returns what was asked for: the cells, the measurement, the drill."""
        asked: dict[str, Any] = self.head["question"]
        return asked

    @property
    def found(self) -> list[Result]:
        """Returns the newest result of each cell, in the order in which they ended first."""
        return list(self.results.values())

    @property
    def complete(self) -> bool:
        return bool(self.results) and self.stopped == "done"

    def take(self, event: dict[str, Any]) -> None:
        """Takes over what an event says."""
        if event["event"] == "begun":
            self.open, self.stopped = event, ""
        elif event["event"] == "filed" and self.open:
            self.open = {**self.open, "operation": event["operation"]}
        elif event["event"] == "ended":
            self.open = None
            result = of_record(event["result"])
            self.results[result.cell] = result
        elif event["event"] == "lost":
            self.open = None
        elif event["event"] == "stopped":
            self.stopped = str(event["why"])

    def write(self, event: str, **fields: Any) -> None:
        """Appends an event, synced; raises DdopsError where the disk does not take it."""
        assert self._file is not None, "only the study's writer writes"  # noqa: S101
        record = {"event": event, "time": datetime.now(UTC).isoformat(timespec="seconds"), **fields}
        try:
            self._file.write(json.dumps(record).encode() + b"\n")
            os.fsync(self._file.fileno())
        except OSError as error:
            why = f"{error.strerror or error}; what the host has in its hands it ends by itself"
            raise DdopsError(f"cannot write {self.path}", why, "free space there: the same command goes on") from None
        self.take(record)


def folder() -> Path:
    """Returns where studies are kept that nobody named a file for."""
    return data_home() / "ddops/studies"


def read(path: Path) -> Study:
    """Returns a study as its file tells it; raises UsageError where it is none."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"cannot read {path}", error.strerror or str(error), "ddops study lists them") from None
    events = list(_events(lines))
    if not events or events[0].get("event") != "study" or events[0].get("version") != VERSION:
        raise UsageError(f"{path} is no study", "its first line is not that of one", "ddops study lists them")
    study = Study(path, events[0])
    try:
        for event in events[1:]:
            study.take(event)
    except (KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is damaged", f"{type(error).__name__}: {error}", "--study with another file"
        ) from None
    return study


def _events(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the torn line of a crash
        if isinstance(event, dict) and "event" in event:
            yield event


@contextmanager
def writing(path: Path, head: dict[str, Any]) -> Iterator[Study]:
    """Opens a study to go on with it, or begins it where the file is not there, and keeps others from writing it.

    Raises Refused where it was begun for another host, stack, profile or question, Locked where another client
    writes it, UsageError where the file is none or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab+", buffering=0)  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"cannot write {path}", error.strerror or str(error), "--study with another file") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked(f"another sweep writes {path}", "one client at a time", "wait for it") from None
        if os.fstat(file.fileno()).st_size:
            study = read(path)
            _must_be_the_same(study, head)
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
            study._file = file
        else:
            study = Study(path, {}, _file=file)
            study.write("study", version=VERSION, **head)
            study.head = {"event": "study", "version": VERSION, **head}
            sync_directory(path.parent)
        yield study


def _must_be_the_same(study: Study, head: dict[str, Any]) -> None:
    for key in (*_SAME, "question"):
        was, now = study.head.get(key), head.get(key)
        if was != now:
            raise Refused(
                f"{study.path} is a study of another {key.replace('_', ' ')}",
                f"it began with {_brief(was, now)}, this is {_brief(now, was)}",
                "--study with another file, or none, begins a new one",
            )


def _brief(value: Any, other: Any) -> str:
    """Returns a value in a few words: of a mapping only what differs."""
    if isinstance(value, dict) and isinstance(other, dict):
        value = {k: v for k, v in value.items() if v != other.get(k)}
    text = json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "..."


def listed(directory: Path) -> list[Study]:
    """Returns the studies of a folder, the newest last; files that are none are left out."""
    found = []
    files = [path for path in directory.glob("*.jsonl") if path.is_file()]  # a link may lead nowhere
    for path in sorted(files, key=lambda p: p.stat().st_mtime):
        try:
            found.append(read(path))
        except UsageError:
            continue
    return found


def place(directory: Path, head: dict[str, Any], *, fresh: bool) -> Path:
    """Returns the file for a study that nobody named one for: an unfinished one of the same question, or a new one."""
    for study in reversed([] if fresh else listed(directory)):
        if not study.complete and all(study.head.get(k) == head.get(k) for k in (*_SAME, "question")):
            return study.path
    stem = f"{head['host']}-{head['service']}-{datetime.now(UTC):%Y%m%d-%H%M%S}".replace("/", "_")
    taken = 0
    while (path := directory / f"{stem}{f'-{taken}' if taken else ''}.jsonl").exists():
        taken += 1
    return path
