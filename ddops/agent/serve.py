"""The agent at the other end of one SSH channel: one JSON line a request, one or more a reply.

A request is ``{"call": NAME, "args": {...}, "bytes": N}``, followed by N bytes where a call takes a
payload. Replies are events and, last, ``{"event": "result", "result": ...}`` or
``{"event": "error", "error": {...}}``; after an error the agent ends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import SubprocessError
from typing import Any, BinaryIO

from . import logs, plan, preflight, requests, site, status
from .errors import AgentError
from .layout import layout_of, services


def _stage(args: dict[str, Any], payload: bytes) -> Iterator[dict[str, Any]]:
    layout = layout_of(args["service"])
    preflight.room(layout, len(payload) * 4, int(args["files"]))
    yield _result(requests.stage(layout, payload, args["manifest"].encode()))


def _install(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    requests.install_supervisor(layout_of(args["service"]), args["unit"], Path(sys.argv[0]).read_bytes())
    yield _result({})


def _file(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    yield _result({"operation": requests.file(layout_of(args["service"]), args["request"])})


def _follow(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    yield from requests.follow(layout_of(args["service"]), args["operation"], args["after"])


def _logs(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    yield from logs.logs(layout_of(args["service"]), args["release"], args["last"], follow=args["follow"])
    yield _result({})


def _simple(function: Callable[..., Any], *names: str) -> Callable[[dict[str, Any], bytes], Iterator[dict[str, Any]]]:
    def call(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
        yield _result(function(layout_of(args["service"]), *(args[n] for n in names)))

    return call


def _services(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    yield _result(services())


def _site(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    yield _result(site.check(args["about"]))


CALLS = {
    "services": _services,
    "site": _site,
    "facts": _simple(plan.facts, "about"),
    "texts": _simple(plan.texts),
    "install": _install,
    "stage": _stage,
    "file": _file,
    "follow": _follow,
    "rollback": _simple(requests.rollback, "to", "by"),
    "confirm": _simple(requests.confirm, "by"),
    "status": _simple(status.status),
    "history": _simple(status.history, "last"),
    "logs": _logs,
}


def _result(value: Any) -> dict[str, Any]:
    return {"event": "result", "result": value}


def serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Answers requests until the input ends or a call fails."""
    while line := stdin.readline():
        request = json.loads(line)
        payload = stdin.read(request.get("bytes", 0))
        try:
            for reply in CALLS[request["call"]](request["args"], payload):
                _send(stdout, reply)
        except AgentError as error:
            _send(stdout, {"event": "error", "error": error.record()})
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SubprocessError) as error:
            _send(
                stdout,
                {"event": "error", "error": {"code": "internal", "what": f"{request['call']}: {error!r}"}},
            )
            return


def _send(stdout: BinaryIO, reply: dict[str, Any]) -> None:
    stdout.write(json.dumps(reply).encode() + b"\n")
    stdout.flush()
