"""``ddops help``."""

from __future__ import annotations

from typing import Annotated

import typer

from . import completing
from .options import JsonOption


def command(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="exit-codes, variables or man; without one, what there is.",
            autocompletion=completing.topics,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Explain a topic: exit codes, variables, the manual page."""

    from .. import manual
    from ..errors import UsageError, did_you_mean
    from . import output

    known = manual.topics()
    if topic is None:
        about = {name: text for name, (text, _) in known.items()}
        if as_json:
            output.document(about)
            return 0
        for name, text in about.items():
            output.data(f"{name:12} {text}")
        return 0
    if topic not in known:
        hint = did_you_mean(topic, known, "ddops COMMAND -h explains a command")
        raise UsageError(f"unknown topic '{topic}'", f"known are: {', '.join(known)}", hint)
    text = known[topic][1](context.find_root().command).rstrip("\n")
    output.document({"topic": topic, "text": text}) if as_json else output.data(text)
    return 0
