"""The rule that lets a user of a host run this ddops' agent as root, and nothing else."""

from __future__ import annotations

import re

from . import __version__, remote, resources
from .errors import UsageError

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
_SPECIAL = re.compile(r"([\\,:=*?\[\]!#\"])")  # to sudoers, or a wildcard in it


def rule(user: str) -> str:
    """Returns a file for /etc/sudoers.d: one command, word for word, with the hash of the agent that may arrive.

    Raises UsageError for what cannot be a user's name.
    """
    if not _USER.fullmatch(user):
        raise UsageError(f"'{user}' cannot be a user's name", "a-z, 0-9, _ and -, up to 32", "ddops sudoers ops")
    python, *arguments = remote.command(resources.agent())
    words = " ".join(_SPECIAL.sub(r"\\\1", word).replace(" ", "\\ ") for word in arguments)
    return (
        f"# written by 'ddops sudoers {user}': the agent of ddops {__version__}, told by its hash; make it anew with\n"
        "# every new version. It may change services, their units too: whoever has this right can become root by it\n"
        f"{user} ALL=(root) NOPASSWD: {python} {words}\n"
    )
