"""``serve`` (the client's), ``supervise`` (systemd's), ``rollback`` (by hand), ``operate``, ``notify``, ``ledger``."""

from __future__ import annotations

import contextlib
import json
import os
import sys

from .errors import AgentError, Locked
from .layout import Layout, layout_of

# the same meanings as the client's exit codes
_EXITS = {"rolled-back": 0, "restarted": 0, "unchanged": 0, "refused": 5, "rollback-failed": 4, "promoted": 5}


def main(arguments: list[str]) -> int:
    """Runs one entry point; returns the exit code."""
    verb, rest = arguments[0], arguments[1:]
    if verb == "serve":
        from .serve import serve  # all that a client can ask for: more than the supervisor should hold

        with contextlib.suppress(BrokenPipeError):
            serve(sys.stdin.buffer, sys.stdout.buffer)
        return 0
    if verb == "supervise":
        from . import supervisor

        supervisor.supervise(layout_of(rest[0]))
        return 0
    if verb == "notify":
        from . import notices

        notices.deliver(layout_of(rest[0]))
        return 0
    if verb == "ledger":
        from . import ledger  # and SQLite with it

        ledger.answer(layout_of(rest[0]), {})
        return 0
    if verb == "operate":
        return _operate(layout_of(rest[0]))
    return _rollback(rest[0], rest[1:])


def _operate(layout: Layout) -> int:
    """Carries out what is under way, where no supervisor does."""
    from . import lock, steplog, supervisor

    with lock.held(layout):
        if request := steplog.under_way(layout):
            supervisor.operate(layout, request)
    return 0


def _rollback(service: str, rest: list[str]) -> int:
    """Does by hand what ``ddops rollback`` does; says each step on stderr, the outcome on stdout."""
    from . import requests

    if rest and not rest[0].isdigit():
        sys.stderr.write("usage: rollback [RELEASE]\n")
        return 2
    try:
        layout = layout_of(service)
        by = f"{os.environ.get('SUDO_USER') or os.environ.get('USER') or 'root'}, on the host"
        asked = requests.rollback(layout, int(rest[0]) if rest else None, by)
        for event in requests.follow(layout, asked["operation"], -1):
            if event["event"] in ("step", "step-failed", "fault"):
                sys.stderr.write(f"{event['event']}: {event.get('step') or event.get('line')}\n")
            if event["event"] == "result":
                outcome = event["result"]
    except AgentError as error:
        sys.stderr.write(f"error: {error.what}\n  {error.why}\n\nhint: {error.hint}\n")
        return 7 if isinstance(error, Locked) else 5
    sys.stdout.write(
        json.dumps({"outcome": outcome["outcome"], "reason": outcome["reason"], "host": outcome["host"]}) + "\n"
    )
    return _EXITS.get(outcome["outcome"], 4)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
