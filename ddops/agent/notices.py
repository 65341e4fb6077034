"""Notices: what a person should know, sent by a command, a webhook or both, by a process of its own.

A notice is a file until it is delivered, so neither a slow receiver nor a killed sender loses one, and
nothing that the supervisor does ever waits for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import durable, steplog
from .layout import Layout

_PAUSES_S = (2.0, 10.0, 60.0, 300.0, 900.0)  # between attempts
_LOOK_S = 0.2
_DELIVERED = "delivered"
_TIMEOUT_S = 10.0
_KEPT = 200  # delivered or given up


class Undelivered(Exception):
    """A receiver did not take a notice; says why, never where to: a webhook's address is a secret."""


def send_to(layout: Layout, notify: dict[str, Any]) -> None:
    """Keeps where notices go: ``command`` and ``webhook_url_file``, either may be None."""
    with contextlib.suppress(ValueError):
        if durable.read_json(layout.notify) == notify:
            return
    durable.write_json(layout.notify, notify)


def leave(layout: Layout, text: str, **facts: Any) -> None:
    """Leaves a notice and starts its delivery; a full disk must not keep anybody from acting."""
    notice = {"text": f"{layout.name} on {platform.node()}: {text}", "service": layout.name, "host": platform.node()}
    with contextlib.suppress(OSError):
        durable.make_directory(layout.notices, 0o700)
        name = f"{time.time_ns():020d}.json"
        record = {"notice": {**notice, "time": steplog.now(), **facts}, "ways": {}, "tries": 0, "next": 0}
        durable.write_json(layout.notices / name, record)
        send(layout)


def send(layout: Layout) -> None:
    """Starts the delivery of what waits, in a process of its own; one that runs already goes on alone."""
    if not waiting(layout) or not layout.notify.exists() or _is_delivering(layout):
        return
    subprocess.Popen(
        [sys.executable, "-IS", sys.argv[0], "notify", layout.name],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _is_delivering(layout: Layout) -> bool:
    with open(layout.notices / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def waiting(layout: Layout) -> list[Path]:
    """Returns the notices that are not settled yet, the oldest first."""
    return sorted(layout.notices.glob("*.json")) if layout.notices.is_dir() else []


def deliver(layout: Layout) -> None:
    """Delivers what waits, each way until it is taken or given up; returns where another process does it."""
    with open(layout.notices / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        records: dict[str, dict[str, Any]] = {}  # a full disk takes no record of what was delivered
        while pending := waiting(layout):
            for path in pending:
                if path.name not in records:
                    records[path.name] = json.loads(path.read_text())
                _attempt(layout, path, records[path.name])
            time.sleep(_LOOK_S)
    for old in sorted((layout.notices / "settled").glob("*.json"))[:-_KEPT]:
        old.unlink()


def _attempt(layout: Layout, path: Path, record: dict[str, Any]) -> None:
    """Tries the ways that have not taken a notice yet, where it is time; files it under ``settled`` at its end."""
    if 0 < record["next"] - time.time() <= max(_PAUSES_S):
        return
    for name, way in _ways(durable.read_json(layout.notify) or {}).items():
        if record["ways"].get(name) == _DELIVERED:
            continue
        try:
            way(record["notice"])
            record["ways"][name] = _DELIVERED
        except Undelivered as error:
            record["ways"][name] = str(error)
    given_up = record["tries"] >= len(_PAUSES_S)
    if given_up or all(said == _DELIVERED for said in record["ways"].values()):
        settled = layout.notices / "settled"
        with contextlib.suppress(OSError):
            durable.write_json(path, record)
        try:
            durable.make_directory(settled, 0o700)
            os.replace(path, settled / path.name)
        except OSError:
            path.unlink()
        return
    record.update(next=time.time() + _PAUSES_S[record["tries"]], tries=record["tries"] + 1)
    with contextlib.suppress(OSError):
        durable.write_json(path, record)


def _ways(notify: dict[str, Any]) -> dict[str, Callable[[dict[str, Any]], None]]:
    ways: dict[str, Callable[[dict[str, Any]], None]] = {}
    if command := notify.get("command"):
        ways["command"] = lambda notice: _run(command, notice)
    if url_file := notify.get("webhook_url_file"):
        ways["webhook"] = lambda notice: _post(Path(url_file), notice)
    return ways


def _run(command: list[str], notice: dict[str, Any]) -> None:
    """Runs the command with the notice as JSON on its standard input."""
    try:
        done = subprocess.run(
            command, input=json.dumps(notice), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Undelivered(f"{command[0]}: {type(error).__name__}") from None
    if done.returncode:
        raise Undelivered(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[:200]}")


def _post(url_file: Path, notice: dict[str, Any]) -> None:
    """Posts the notice as JSON; ``text`` is what Slack and those who speak like it show."""
    import urllib.error  # the supervisor sends nothing itself, and does without their 2 MB
    import urllib.request

    try:
        url = url_file.read_text().strip()
        if not url.startswith(("http://", "https://")):
            raise Undelivered(f"{url_file} holds no http address")
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            url, json.dumps(notice).encode(), {"Content-Type": "application/json", "User-Agent": "ddops"}
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
            pass
    except urllib.error.HTTPError as error:
        raise Undelivered(f"the webhook answered {error.code}") from None
    except (OSError, ValueError) as error:
        raise Undelivered(f"the webhook of {url_file}: {type(error).__name__}") from None
