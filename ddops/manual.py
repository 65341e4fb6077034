"""The manual page and the topics of ``ddops help``, made of the command line itself and of the tables behind it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from . import exit_codes, settings

_WIDTH = 80


def topics() -> dict[str, tuple[str, Callable[[Any], str]]]:
    """Returns the topics: what each is about, and what makes its text of the root command."""
    return {
        "exit-codes": ("What a command ends with.", lambda _: codes()),
        "variables": ("The variables that stand for flags.", lambda _: variables()),
        "man": ("The manual page: ddops help man > ddops.1; man ./ddops.1", page),
    }


def codes() -> str:
    """Returns every exit code with its meaning, in 80 columns."""
    return "\n".join(_row(str(int(each.code)), _plain(each.meaning), 5) for each in exit_codes.MEANINGS)


def variables() -> str:
    """Returns the DDOPS_* variables with what each stands for, in 80 columns."""
    indent = max(map(len, settings.VARIABLES)) + 2
    return "\n".join(_row(name, text, indent) for name, text in settings.VARIABLES.items())


def _row(name: str, text: str, indent: int) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=f"{name:{indent}}", subsequent_indent=" " * indent)


def page(command: Any) -> str:
    """Returns the manual page in man's own language; ``command`` is the root of the command line."""
    lines = ['.TH DDOPS 1 "" ddops "User Commands"', ".SH NAME", rf"ddops \- {_roff(command.help).rstrip('.')}"]
    lines += [".SH SYNOPSIS", r"\fBddops\fR \fICOMMAND\fR [\fIOPTIONS\fR]", ".SH COMMANDS"]
    for path, each in _leaves(command, ""):
        arguments = [p for p in each.params if p.param_type_name == "argument"]
        names = " ".join(str(p.metavar or p.name.upper()) for p in arguments)
        lines += [f".SS ddops {_roff(f'{path} {names}'.strip())}", _roff(each.help)]
        for parameter in each.params:
            if parameter.name != "help":
                lines += [".TP", rf"\fB{_roff(_usage(parameter))}\fR", _roff(getattr(parameter, "help", ""))]
    lines += [".SH EXIT STATUS"]
    for meaning in exit_codes.MEANINGS:
        lines += [".TP", rf"\fB{int(meaning.code)}\fR", _roff(_plain(meaning.meaning))]
    lines += [".SH ENVIRONMENT"]
    for name, text in settings.VARIABLES.items():
        lines += [".TP", rf"\fB{name}\fR", _roff(text)]
    lines += [".TP", r"\fBNO_COLOR\fR", "no colours, whatever its value is"]
    return "\n".join(line for line in lines if line) + "\n"


def _leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, each in command.commands.items():
        here = f"{path} {name}".strip()
        if getattr(each, "commands", None):
            yield from _leaves(each, here)
        else:
            yield here, each


def _usage(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {parameter.metavar or parameter.type.name.upper()}"


def _plain(text: str) -> str:
    return text.replace("`", "")


def _roff(text: str | None) -> str:
    """Returns text as roff takes it: hyphens that are typed, nothing at a line's start that is a command."""
    one_line = " ".join((text or "").split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{one_line}" if one_line.startswith((".", "'")) else one_line
