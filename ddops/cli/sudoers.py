"""``ddops sudoers``."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import JsonOption


def command(
    user: Annotated[str, typer.Argument(metavar="USER", help="Who logs in to the host, as the site file says.")],
    as_json: JsonOption = False,
) -> int:
    """Print the sudoers file of a user of ddops: this version's agent as root, nothing else."""
    from .. import sudoers
    from . import output

    text = sudoers.rule(user)
    output.document({"user": user, "text": text}) if as_json else output.data(text.rstrip("\n"))
    return 0
