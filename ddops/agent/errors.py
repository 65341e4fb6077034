"""What can go wrong on the host, by what the operator has to know of it.

AgentError
├── Refused          nothing was changed
│   ├── Locked       another operation is under way
│   └── TooNew       a newer ddops has left state that this one cannot read
├── GateFailed       a release did not pass
│   ├── NoAnswer     no answer came
│   └── NotBetter    it is right, but slower than known-good
├── EngineFault      the engine of a trial ended, hung or reported a fault
├── Measured         a trial that was only to be measured has been
├── NoRoom           the disk of the host is full
├── Cancelled        an operator asked for the way back
└── ServiceDown      the way back failed too
"""

from __future__ import annotations

import errno
from typing import Any

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class AgentError(Exception):
    """Carries what happened, why, and the next command."""

    code = "failed"

    def __init__(self, what: str, why: str = "", hint: str = "", evidence: dict[str, Any] | None = None) -> None:
        super().__init__(what)
        self.what, self.why, self.hint = what, why, hint
        self.evidence = evidence or {}

    def record(self) -> dict[str, Any]:
        """Returns the error as it goes into step logs and replies."""
        record: dict[str, Any] = {"code": self.code, "what": self.what}
        for key in ("why", "hint", "evidence"):
            if value := getattr(self, key):
                record[key] = value
        return record


def of(error: Exception) -> AgentError:
    """Returns any error as one that says what to do: a full disk has words of its own."""
    if isinstance(error, AgentError):
        return error
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        where = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
        return NoRoom(
            "the disk of the host is full", where, "df -h; df -i; free space, then run the same command again"
        )
    return AgentError("an internal error", repr(error))


class Refused(AgentError):
    code = "refused"


class Locked(Refused):
    code = "locked"


class TooNew(Refused):
    code = "too-new"


class GateFailed(AgentError):
    code = "gate-failed"


class NoAnswer(GateFailed):
    """None came in time, or the connection broke: a wrong answer is another thing."""


class NotBetter(GateFailed):
    code = "not-better"


class Measured(AgentError):
    code = "measured"


class EngineFault(AgentError):
    code = "engine-fault"


class Cancelled(AgentError):
    code = "cancelled"


class NoRoom(AgentError):
    code = "no-room"


class ServiceDown(AgentError):
    code = "service-down"
