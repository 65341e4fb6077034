"""The commands of ``ddops``, and the one place that turns exceptions into exit codes."""

from __future__ import annotations

import contextlib
import errno
import importlib
import re
import signal
import sys
import tempfile
import traceback
from typing import Any

import typer

from ..errors import DdopsError
from ..exit_codes import ExitCode
from . import output

# in the order in which help shows them
_VERBS = (
    *("deploy", "diff", "render", "rollback", "status", "doctor", "watch", "history", "evidence", "logs"),
    *("bench", "eval", "sweep", "study", "adopt", "confirm", "pause", "resume", "sudoers", "version", "help"),
)
_GROUPS = ("profile", "site", "overlay", "lab", "faults")
_MODULES = {"eval": "evaluate"}  # where it is not the verb's own name
_NEVER_ALONE = ("version", "help")  # what stands beside another verb; what tells of all
# what typer's checks say, in the words of people who type an option
_OF_NUMBERS = (
    (r"Input should be a valid integer.*", "a whole number is wanted"),
    (r"Input should be a valid number.*", "a number is wanted"),
    (r"Input should be greater than or equal to (\S+)", r"at least \1 is wanted"),
    (r"Input should be less than or equal to (\S+)", r"at most \1 is wanted"),
)


def application(arguments: list[str]) -> typer.Typer:
    """Returns the command line; of one that begins with a verb that verb alone: nobody waits for the others."""
    app = typer.Typer(
        name="ddops",
        help="Deploy, gate, watch and roll back SGLang services under systemd on GPU hosts.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    verb = arguments[0] if arguments else ""
    alone = verb in _VERBS and verb not in _NEVER_ALONE
    for name in (verb, "version") if alone else _VERBS:  # typer takes a single command for the whole
        app.command(name)(_module(_MODULES.get(name, name)).command)
    for name in () if alone else _GROUPS:
        app.add_typer(_module(name).app, name=name)
    return app


def _module(name: str) -> Any:
    return importlib.import_module(f".{name}", __package__)


def command() -> Any:
    """Returns the root of the command line, of which the manual page is made."""
    return typer.main.get_command(application([]))


def run(arguments: list[str]) -> int:
    """Runs one command line; returns the exit code."""
    as_json = "--json" in arguments
    try:
        try:
            result: Any = application(arguments)(arguments, prog_name="ddops", standalone_mode=False)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)  # an interrupt has arrived
    except DdopsError as error:
        return output.error(error.what, error.why, error.hint, error.exit_code, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        result = ExitCode.INTERRUPTED
    except output.ReaderGone:
        return ExitCode.OK
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return _unexpected(error, as_json=as_json)
        lost = output.lost(error)
        return output.error(lost.what, lost.why, lost.hint, lost.exit_code, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the last place: nothing may end in a traceback on the screen
        return _usage(error, as_json=as_json) or _unexpected(error, as_json=as_json)
    if result == ExitCode.INTERRUPTED:  # typer's own way to say so, too
        at_lab = arguments[:1] == ["lab"]
        why = "a lab host may be half made" if at_lab else "nothing was changed at a host"
        hint = "ddops lab list" if at_lab else ""
        return output.error("interrupted", why, hint, ExitCode.INTERRUPTED, as_json=as_json)
    return int(result or 0)


def end(code: int) -> int:
    """Writes out what is still held back; returns the exit code, another one where the output was lost."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return code  # whoever read it has seen enough
    except OSError as error:
        why = error.strerror or type(error).__name__
        return output.error("the output could not be written", why, "", code or ExitCode.UNEXPECTED, as_json=False)
    return code


def _usage(error: Exception, *, as_json: bool) -> int:
    """Shows a usage error as typer does, with --json as a document too; returns 0 for any other exception."""
    show = getattr(error, "show", None)
    if show is None:
        return 0
    for said, words in _OF_NUMBERS:
        error.message = re.sub(said, words, str(error.message))  # type: ignore[attr-defined]
    with contextlib.suppress(OSError):  # nobody reads stderr
        show()
    if as_json:
        context = getattr(error, "ctx", None)
        what, hint = str(error.format_message()), f"{context.command_path if context else 'ddops'} -h"  # type: ignore[attr-defined]
        why = "the command line cannot be understood"
        with contextlib.suppress(output.OutputLost):
            output.problem(what, why, hint, ExitCode.USAGE)
    return int(ExitCode.USAGE)


def _unexpected(error: Exception, *, as_json: bool) -> int:
    with tempfile.NamedTemporaryFile("w", prefix="ddops-", suffix=".log", delete=False) as file:
        traceback.print_exception(error, file=file)
    return output.error(
        f"something unexpected: {type(error).__name__}: {error}",
        f"the traceback is in {file.name}",
        "please report it with that file",
        ExitCode.UNEXPECTED,
        as_json=as_json,
    )
