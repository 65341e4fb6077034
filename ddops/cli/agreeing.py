"""The question before a change."""

from __future__ import annotations

import sys
from typing import Any

import typer

from . import output


def agreed(question: str, plan: dict[str, Any], *, yes: bool, as_json: bool) -> bool:
    """Asks whether to go on, where there is a terminal and ``yes`` was not given; says so where the answer is no."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()) or typer.confirm(question, err=True):
        return True
    output.say("nothing was changed")
    if as_json:
        output.document({"outcome": "declined", "plan": plan, "exit_code": 0})
    return False
