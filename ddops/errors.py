"""What a user is told when something does not go on: what happened, why, and the next command.

DdopsError            1   something unexpected
├── UsageError        2   the command line, the profile or the site file is wrong
├── Refused           5   refused, nothing changed
│   └── Outdated     12   a newer ddops has left state that this one cannot read; nothing touched
├── Unreachable       6   the host cannot be reached, or was lost
├── Locked            7   another operation is under way
└── Interrupted     130   Ctrl-C, and what goes on without the client
"""

from __future__ import annotations

from collections.abc import Iterable

from .exit_codes import ExitCode


class DdopsError(Exception):
    """An error with a reason and a hint; ``exit_code`` is what the command ends with."""

    exit_code = ExitCode.UNEXPECTED

    def __init__(self, what: str, why: str = "", hint: str = "") -> None:
        super().__init__(f"{what}: {why}" if why else what)
        self.what, self.why, self.hint = what, why, hint


class UsageError(DdopsError):
    exit_code = ExitCode.USAGE


class Refused(DdopsError):
    exit_code = ExitCode.REFUSED


class Outdated(Refused):
    exit_code = ExitCode.OUTDATED


class Unreachable(DdopsError):
    exit_code = ExitCode.UNREACHABLE


class Locked(DdopsError):
    exit_code = ExitCode.LOCKED


class Interrupted(DdopsError):
    exit_code = ExitCode.INTERRUPTED


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Returns the hint that names the nearest known name; ``otherwise`` where none is near."""
    import difflib  # only where something went wrong

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean '{near[0]}'?" if near else otherwise


def from_agent(record: dict[str, str]) -> DdopsError:
    """Returns the error that the host reported as the client's own."""
    kind = {"refused": Refused, "locked": Locked, "too-new": Outdated}.get(record.get("code", ""), DdopsError)
    return kind(record["what"], record.get("why", ""), record.get("hint", ""))
