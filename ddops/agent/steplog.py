"""The step log: what an operation is about to do, written and synced before it is done.

One operation is three files under ``operations/``: ``N.request.json``, ``N.jsonl`` (the steps,
which clients follow) and ``N.json`` (the outcome). The newest request without an outcome is under way.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from . import durable, errors
from .layout import Layout


def now() -> str:
    """Returns the host's time, UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def boot_id() -> str:
    """Returns the identity of this boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def steps_file(layout: Layout, operation: int) -> Path:
    return layout.operations / f"{operation:06d}.jsonl"


def request_file(layout: Layout, operation: int) -> Path:
    return layout.operations / f"{operation:06d}.request.json"


def outcome_file(layout: Layout, operation: int) -> Path:
    return layout.operations / f"{operation:06d}.json"


def outcomes(layout: Layout, last: int | None = None) -> list[dict[str, Any]]:
    """Returns the outcomes of past operations, the oldest first: the ledger."""
    if not layout.operations.is_dir():
        return []
    files = sorted(p for p in layout.operations.glob("*.json") if p.stem.isdigit())
    found = []
    for path in files[-last if last else 0 :]:
        with contextlib.suppress(OSError, ValueError):  # one damaged record must not hide the others
            found.append(json.loads(path.read_text()))
    return found


class StepLog:
    """Appends to one operation's steps; safe to use from several threads."""

    def __init__(self, layout: Layout, operation: int, tell: Callable[[str], None] = lambda _: None) -> None:
        self.operation = operation
        self._tell = tell
        self._path = steps_file(layout, operation)
        self._mutex = threading.Lock()
        self.must_write_ahead = True
        self.events: list[dict[str, Any]] = list(read(self._path))
        self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - lives as long as the operation
        if self.events and not self._path.read_bytes().endswith(b"\n"):
            self._file.write(b"\n")  # a power cut left a torn last line

    def write(self, event: str, *, synced: bool = True, must: bool = False, **fields: Any) -> None:
        """Appends an event; synced unless it only tells of progress.

        On a full disk only what ``must`` be written raises OSError; the rest is kept in memory and told.
        """
        with self._mutex:
            record = {"n": len(self.events), "time": now(), "event": event, **fields}
            self.events.append(record)
            if synced:
                self._tell(_in_words(record))
            try:
                self._append(json.dumps(record).encode() + b"\n")
                if synced:
                    os.fsync(self._file.fileno())
            except OSError as error:
                if must:
                    raise
                self._tell(f"the step log cannot be written: {error}")

    def _append(self, line: bytes) -> None:
        """Writes a line whole or not at all: a disk that is filling takes a part of it."""
        size = os.fstat(self._file.fileno()).st_size
        if self._file.write(line) != len(line):
            os.ftruncate(self._file.fileno(), size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def progress(self, step: str, text: str) -> None:
        """Tells a watching client how a step goes on."""
        self.write("progress", synced=False, step=step, text=text)

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Writes a step ahead, runs it, writes its end with what the body puts into the yielded dict."""
        self.write("step", must=self.must_write_ahead, step=name)
        began = time.monotonic()
        found: dict[str, Any] = {}
        try:
            yield found
        except BaseException as error:
            record = getattr(errors.of(error) if isinstance(error, OSError) else error, "record", None)
            self.write(
                "step-failed",
                step=name,
                seconds=round(time.monotonic() - began, 3),
                error=record() if record else {"code": "internal", "what": repr(error)},
                **found,
            )
            raise
        self.write("step-done", step=name, seconds=round(time.monotonic() - began, 3), **found)

    def begun(self, name: str) -> bool:
        """Says whether a step was begun, in this or an earlier life of the supervisor."""
        return any(e["event"] == "step" and e["step"] == name for e in self.events)

    def done(self, name: str) -> dict[str, Any] | None:
        """Returns the event of a step that came to its end, with what it found."""
        return next((e for e in self.events if e["event"] == "step-done" and e["step"] == name), None)

    def last(self, event: str) -> dict[str, Any] | None:
        """Returns the newest event of a kind."""
        return next((e for e in reversed(self.events) if e["event"] == event), None)

    def times(self) -> list[dict[str, Any]]:
        """Returns the steps that came to an end, with their seconds."""
        return [
            {"step": e["step"], "seconds": e["seconds"], "ok": e["event"] == "step-done"}
            for e in self.events
            if e["event"] in ("step-done", "step-failed")
        ]

    def close(self) -> None:
        self._file.close()


def _in_words(record: dict[str, Any]) -> str:
    """Returns an event as one line for the supervisor's own journal."""
    error = record.get("error") or {}
    told = (record.get(key) for key in ("step", "unit", "outcome", "what"))
    parts = [record["event"], *told, error.get("what")]
    if record["event"] == "fault":
        killed = f", killed {record['ms_from_line_to_kill']} ms after its line" if record["killed"] else ""
        parts.append(record["rule"] + killed)
    if record["event"] == "noticed":
        parts += [record["rule"], record["why"]]
    return " ".join(str(part) for part in parts if part)


def read(path: Path, after: int = -1) -> Iterator[dict[str, Any]]:
    """Yields the whole events of a step log with a number above ``after``."""
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the torn line of a power cut, or one that is being written
        if event["n"] > after:
            yield event


def start(layout: Layout, request: dict[str, Any]) -> int:
    """Files a request as the next operation, which is under way from then on; returns its number.

    The caller holds the lock.
    """
    durable.make_directory(layout.operations, 0o700)
    operation = max(_numbers(layout), default=0) + 1
    request = {**request, "operation": operation, "time": now(), "boot_id": boot_id()}
    steps_file(layout, operation).touch()  # a disk without inodes refuses now what could not be logged
    durable.write_json(request_file(layout, operation), request)
    return operation


def finish(layout: Layout, operation: int, outcome: dict[str, Any]) -> None:
    """Stores the outcome, which ends the operation."""
    durable.write_json(outcome_file(layout, operation), outcome)


def under_way(layout: Layout) -> dict[str, Any] | None:
    """Returns the request of the operation that is under way, None where there is none."""
    newest = max(_numbers(layout), default=None)
    if newest is None or outcome_file(layout, newest).exists():
        return None
    try:
        request: dict[str, Any] = durable.read_json(request_file(layout, newest))
        return {**request, "kind": str(request["kind"]), "boot_id": str(request["boot_id"])}
    except (ValueError, KeyError, TypeError):
        # what was asked for cannot be known: known-good is right whatever it was
        asked = {"kind": "rollback", "to": None, "by": "the supervisor: the request is damaged"}
        return {**asked, "operation": newest, "time": now(), "boot_id": boot_id()}


def at_step(layout: Layout, request: dict[str, Any]) -> str:
    """Returns the last step that an operation has begun, "none" before the first."""
    begun = [e["step"] for e in read(steps_file(layout, request["operation"])) if e["event"] == "step"]
    return str(begun[-1]) if begun else "none"


def _numbers(layout: Layout) -> list[int]:
    if not layout.operations.is_dir():
        return []
    return [int(p.name[:6]) for p in layout.operations.glob("*.request.json")]
