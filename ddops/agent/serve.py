"""The agent at the other end of one SSH channel: one JSON line a request, one or more a reply.

A request is ``{"call": NAME, "args": {...}, "bytes": N}``, followed by N bytes where a call takes a
payload. Replies are events, ``{"event": "alive"}`` each second while it lasts, and last
``{"event": "result", "result": ...}`` or ``{"event": "error", "error": {...}}``; after an error the agent ends.

Each call imports what it needs itself: a client waits for the agent's start, and asks for little of it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import SubprocessError
from typing import Any, BinaryIO

from . import durable, state, systemd
from .errors import AgentError
from .layout import Layout, layout_of


def _layout(args: dict[str, Any]) -> Layout:
    systemd.must_run()
    layout = layout_of(args["service"])
    state.must_be_readable(layout)
    return layout


def _stage(args: dict[str, Any], payload: bytes) -> Iterator[dict[str, Any]]:
    from . import patched_tree, releases, requests

    _install_supervisor(args)
    layout = _layout(args)
    described = json.loads(args["manifest"])
    copied, files = patched_tree.size(described["engine"]["python"]) if described.get("tree") else (0, 0)
    releases.must_have_room(layout, len(payload) * 4 + copied, int(args["files"]) + files)
    yield _result(requests.stage(layout, payload, args["manifest"].encode(), args["overlay_of"]))


def _install(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    _install_supervisor(args)
    yield _result({})


def _install_supervisor(args: dict[str, Any]) -> None:
    from . import requests

    packed = Path(sys.argv[0]) / "agent.pyz"  # this agent, beside its unpacked files
    requests.install_supervisor(_layout(args), args["unit"], packed.read_bytes(), args["notify"])


def _file(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    from . import requests

    layout = _layout(args)
    yield from _filed(layout, args, {"operation": requests.file(layout, args["request"])})


def _rollback(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    from . import requests

    layout = _layout(args)
    yield from _filed(layout, args, requests.rollback(layout, args["to"], args["by"]))


def _filed(layout: Layout, args: dict[str, Any], filed: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields what was filed and goes on with its steps: to be asked for them would take one more round trip."""
    from . import requests

    yield {"event": "filed", **filed}
    yield from _with_ledger(layout, args, requests.follow(layout, filed["operation"], -1))


def _follow(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    from . import requests

    layout = _layout(args)
    yield from _with_ledger(layout, args, requests.follow(layout, args["operation"], args["after"]))


def _logs(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    from . import logs

    yield from logs.logs(_layout(args), args["release"], args["last"], follow=args["follow"], after=args["after"])
    yield _result({})


def _watch(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    from . import observe

    yield from observe.watch(_layout(args), args["after"])


def _eval(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    from . import evaluate

    layout = _layout(args)
    yield from _with_ledger(layout, args, evaluate.evaluate(layout, args["suite"], args["settings"], args["by"]))


def _with_ledger(layout: Layout, args: dict[str, Any], events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Puts what a client's copy of the ledger lacks before the result: it costs no round trip of its own."""
    with contextlib.suppress(ImportError):  # SQLite is not on every host, which the ledger tells
        from . import database  # noqa: F401 - while the operation goes on, not when its outcome is waited for
    for event in events:
        if event["event"] == "result":
            try:
                from . import ledger

                behind = ledger.answer(layout, args["copy"])
            except Exception as error:  # noqa: BLE001 - whatever it is, the result has to arrive
                behind = {"id": None, "entries": [], "problem": repr(error)}
            yield {"event": "ledger", **behind}
        yield event


def _ledger(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
    from . import ledger, plan

    layout = _layout(args)
    stack = {} if args["about"] is None else {"stack": plan.stack_now(layout, args["about"])}
    yield _result({**ledger.answer(layout, args["copy"]), **stack})


Call = Callable[[dict[str, Any], bytes], Iterator[dict[str, Any]]]


def _of_host(function: str, *names: str) -> Call:
    """Returns the call of the agent's ``module.function`` with the arguments of these names."""

    def call(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
        yield _result(_loaded(function)(*(args[n] for n in names)))

    return call


def _of_service(function: str, *names: str) -> Call:
    """As ``_of_host``, and the service's layout comes first."""

    def call(args: dict[str, Any], _: bytes) -> Iterator[dict[str, Any]]:
        yield _result(_loaded(function)(_layout(args), *(args[n] for n in names)))

    return call


def _loaded(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(f".{module}", __package__), name)
    return found


CALLS: dict[str, Call] = {
    "services": _of_host("layout.services"),
    "site": _of_host("site.check", "about"),
    "doctor": _of_host("doctor.check", "about"),
    "overlay": _of_host("overlay_fit.check", "about"),
    "pins": _of_host("overlay_fit.pins", "python", "diffs"),
    "facts": _of_service("plan.facts", "about"),
    "texts": _of_service("plan.texts"),
    "inspect": _of_service("adopt.inspect", "unit", "port", "spec"),
    "install": _install,
    "stage": _stage,
    "file": _file,
    "follow": _follow,
    "rollback": _rollback,
    "confirm": _of_service("requests.confirm", "by"),
    "status": _of_service("status.status"),
    "ledger": _ledger,
    "logs": _logs,
    "watch": _watch,
    "eval": _eval,
    "gpu_use": _of_host("gpu_use.sample"),
    "pause": _of_service("brakes.pause", "by", "reason", "seconds"),
    "resume": _of_service("brakes.resume"),
}


def _result(value: Any) -> dict[str, Any]:
    return {"event": "result", "result": value}


def serve(stdin: BinaryIO, stdout: BinaryIO, heartbeat_s: float = 1.0) -> None:
    """Answers requests until the input ends or a call fails."""
    while line := stdin.readline():
        request = json.loads(line)
        with _replies(stdout, heartbeat_s) as send:
            payload = stdin.read(request.get("bytes", 0))  # a long one on a slow line: alive all the same
            if not _answer(request, payload, send):
                return


def _answer(request: dict[str, Any], payload: bytes, send: Callable[[dict[str, Any]], None]) -> bool:
    """Sends the replies to one request; returns whether the next one may come."""
    try:
        for reply in CALLS[request["call"]](request["args"], payload):
            send(reply)
    except AgentError as error:
        send({"event": "error", "error": error.record()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SubprocessError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        send(
            {"event": "error", "error": _internal(request["call"], request["args"].get("service") or "SERVICE", error)}
        )
    else:
        return True
    return False


def _internal(call: str, service: str, error: Exception) -> dict[str, Any]:
    if isinstance(error, OSError) and (hint := durable.hint(error, service)):
        what = f"the host cannot store anything: {error.strerror}"
        return {"code": "refused", "what": what, "why": str(error.filename or call), "hint": hint}
    return {"code": "internal", "what": f"{call}: {error!r}"}


@contextlib.contextmanager
def _replies(stdout: BinaryIO, heartbeat_s: float) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Gives a function that sends a reply, while a heartbeat goes out in every so many seconds."""
    mutex, over = threading.Lock(), threading.Event()

    def send(reply: dict[str, Any]) -> None:
        with mutex:
            stdout.write(json.dumps(reply).encode() + b"\n")
            stdout.flush()

    def beat() -> None:
        with contextlib.suppress(OSError, ValueError):  # the client is gone: the call finds that out by itself
            while not over.wait(heartbeat_s):
                send({"event": "alive"})

    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield send
    finally:
        over.set()
        heart.join()
