"""The exit codes, read back from the host at the end; docs/exit-codes.md explains each."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    ROLLED_BACK = 3
    SERVICE_DOWN = 4
    REFUSED = 5
    UNREACHABLE = 6
    LOCKED = 7
    UNHEALTHY = 9
    NOT_WAITED = 10
    NOT_PASSED = 11
    INTERRUPTED = 130


_DEPLOY = {
    "promoted": ExitCode.OK,
    "unchanged": ExitCode.OK,
    "adopted": ExitCode.OK,
    "rolled-back": ExitCode.ROLLED_BACK,
    "rollback-failed": ExitCode.SERVICE_DOWN,
    "refused": ExitCode.REFUSED,
}


def of_outcome(kind: str, outcome: dict[str, Any]) -> ExitCode:
    """Returns the exit code of an operation's outcome.

    For a rollback, having gone back is success; a rollback that ended a trial is judged the same way.
    """
    if kind == "rollback" and outcome["outcome"] == "promoted":
        return ExitCode.REFUSED  # it came too late: the trial was known-good already
    code = _DEPLOY.get(outcome["outcome"], ExitCode.UNEXPECTED)
    if outcome.get("host", {}).get("active", "active") != "active":
        return ExitCode.SERVICE_DOWN  # whatever the operation believed
    if kind == "rollback" and code is ExitCode.ROLLED_BACK:
        return ExitCode.OK
    return code
