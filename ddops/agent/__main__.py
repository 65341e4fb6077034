"""``serve`` (the client's), ``supervise`` (systemd's), ``rollback`` (by hand), ``operate``, ``notify``, ``ledger``."""

from __future__ import annotations

import contextlib
import json
import os
import sys

from . import durable, state
from .errors import AgentError, Locked, TooNew
from .layout import Layout, layout_of

# the same meanings as the client's exit codes
_EXITS = {"rolled-back": 0, "restarted": 0, "unchanged": 0, "refused": 5, "rollback-failed": 4, "promoted": 5}
_TOO_NEW = 12  # also in the supervisor's unit: it is not started again for that
_REFUSALS = ((Locked, 7), (TooNew, _TOO_NEW))


def main(arguments: list[str]) -> int:
    """Runs one entry point; returns the exit code."""
    verb, rest = arguments[0], arguments[1:]
    if verb == "serve":
        from .serve import serve  # all that a client can ask for: more than the supervisor should hold

        with contextlib.suppress(BrokenPipeError):
            serve(sys.stdin.buffer, sys.stdout.buffer)
        return 0
    if verb == "rollback":
        return _rollback(rest[0], rest[1:])
    layout = layout_of(rest[0])
    try:
        state.must_be_readable(layout)
        _alone(verb, layout)
    except TooNew as error:
        sys.stderr.write(f"{error.what}: {error.why}; {error.hint}\n")
        return _TOO_NEW
    return 0


def _alone(verb: str, layout: Layout) -> None:
    """Does what nobody on a terminal waits for."""
    if verb == "supervise":
        from . import supervisor

        supervisor.supervise(layout)
    elif verb == "notify":
        from . import notices

        notices.deliver(layout)
    elif verb == "ledger":
        from . import ledger  # and SQLite with it

        ledger.answer(layout, {})
    elif verb == "operate":
        _operate(layout)


def _operate(layout: Layout) -> None:
    """Carries out what is under way, where no supervisor does."""
    from . import lock, steplog, supervisor

    with lock.held(layout):
        with contextlib.suppress(OSError):  # a disk that takes nothing must not stop a way back
            state.mark(layout)
        if request := steplog.under_way(layout):
            supervisor.operate(layout, request)


def _rollback(service: str, rest: list[str]) -> int:
    """Does by hand what ``ddops rollback`` does; says each step on stderr, the outcome on stdout."""
    from . import requests

    if rest and not rest[0].isdigit():
        sys.stderr.write("usage: rollback [RELEASE]\n")
        return 2
    try:
        layout = layout_of(service)
        state.must_be_readable(layout)
        by = f"{os.environ.get('SUDO_USER') or os.environ.get('USER') or 'root'}, on the host"
        asked = requests.rollback(layout, int(rest[0]) if rest else None, by)
        for event in requests.follow(layout, asked["operation"], -1):
            if event["event"] in ("step", "step-failed", "fault", "noticed", "no-room"):
                what = event.get("step") or event.get("line") or f"{event['what']}; {event['why']}; {event['hint']}"
                sys.stderr.write(f"{event['event']}: {what}\n")
            if event["event"] == "result":
                outcome = event["result"]
    except AgentError as error:
        if isinstance(error, TooNew):  # it would name this script
            error.hint = f"'ddops rollback' of that version; what boots is {layout.alias}"
        sys.stderr.write(f"error: {error.what}\n  {error.why}\n\nhint: {error.hint}\n")
        return next((code for kind, code in _REFUSALS if isinstance(error, kind)), 5)
    except OSError as error:
        sys.stderr.write(f"error: {error}\n\nhint: {durable.hint(error, service) or 'ddops doctor'}\n")
        return 5
    sys.stdout.write(
        json.dumps({"outcome": outcome["outcome"], "reason": outcome["reason"], "host": outcome["host"]}) + "\n"
    )
    return _EXITS.get(outcome["outcome"], 4)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
