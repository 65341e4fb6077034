"""The exit codes, read back from the host at the end, and what each means: docs and help are made from it."""

from __future__ import annotations

from dataclasses import dataclass
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
    NOT_BETTER = 8
    UNHEALTHY = 9
    NOT_WAITED = 10
    NOT_PASSED = 11
    OUTDATED = 12
    INTERRUPTED = 130


@dataclass(frozen=True)
class Meaning:
    """What a code says: of any command, after ``deploy`` and ``adopt``, after ``rollback`` ('': it is none there)."""

    code: ExitCode
    meaning: str
    deploy: str = ""
    rollback: str = ""


MEANINGS = (
    Meaning(
        ExitCode.OK,
        "done",
        "promoted, adopted; or the live release is this one already; or a plan was shown; or you said no at the prompt",
        "the release that was asked for has answered right",
    ),
    Meaning(
        ExitCode.UNEXPECTED,
        "something unexpected: the message says what, and names the file with the traceback where there is one",
        "yes",
        "yes",
    ),
    Meaning(
        ExitCode.USAGE,
        "usage: the command line, the profile or the site file is wrong; found before anybody connects",
        "yes",
        "yes",
    ),
    Meaning(ExitCode.ROLLED_BACK, "rolled back, the service is healthy on known-good", "yes"),
    Meaning(ExitCode.SERVICE_DOWN, "the way back failed, or there was none: the service is down", "yes", "yes"),
    Meaning(
        ExitCode.REFUSED,
        "refused, nothing was changed: something is missing or in the way, on the host or here (a limit of the "
        "profile, a file that is there), the host's key is not the known one, no root without a password; or the trial "
        "was promoted before the rollback came",
        "yes",
        "yes",
    ),
    Meaning(
        ExitCode.UNREACHABLE,
        "the host cannot be reached, does not let the user in, or was lost for two minutes (`--patience`); "
        "an operation that was filed goes on there",
        "yes",
        "yes",
    ),
    Meaning(
        ExitCode.LOCKED,
        "locked: another operation is under way, or another client staged a release since the plan was made",
        "yes",
        "yes; one without `--to` ends a trial, and joins a way back that is under way",
    ),
    Meaning(
        ExitCode.NOT_BETTER,
        "not better: right, but slower than known-good by more than the profile takes; rolled back, the service is "
        "healthy on known-good (`--accept-slower` promotes it)",
        "yes",
    ),
    Meaning(ExitCode.UNHEALTHY, "`status`: the service is not healthy; `doctor`, `overlay check`: something is bad"),
    Meaning(ExitCode.NOT_WAITED, "`rollback --no-wait` only: filed, nobody has checked an answer yet", rollback="yes"),
    Meaning(
        ExitCode.NOT_PASSED,
        "`bench` and `eval` only: it was measured, and requests failed or the suite was not passed",
    ),
    Meaning(
        ExitCode.OUTDATED,
        "outdated: a newer ddops has left state on the host that this one cannot read; nothing was touched",
        "yes",
        "yes",
    ),
    Meaning(ExitCode.INTERRUPTED, "interrupted; an operation that was filed goes on at the host", "yes", "yes"),
)

_DEPLOY = {
    "promoted": ExitCode.OK,
    "unchanged": ExitCode.OK,
    "adopted": ExitCode.OK,
    "restarted": ExitCode.OK,
    "rolled-back": ExitCode.ROLLED_BACK,
    "not-better": ExitCode.NOT_BETTER,
    "measured": ExitCode.OK,
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
    if kind == "rollback" and code in (ExitCode.ROLLED_BACK, ExitCode.NOT_BETTER):
        return ExitCode.OK
    return code
