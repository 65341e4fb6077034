"""The one place where values become text that systemd or a shell reads."""

from __future__ import annotations

import shlex

_UNIT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%", "$": "$$"}
_ENVIRONMENT_ESCAPES = {"\\": "\\\\", '"': '\\"', "$": "\\$", "`": "\\`"}


def unit_command(words: list[str]) -> str:
    """Returns words as one command line of a unit file (systemd.service(5), COMMAND LINES).

    Raises ValueError for a NUL byte, which no argument can hold.
    """
    return " ".join(_unit_word(word) for word in words)


def unit_path(path: str) -> str:
    """Returns a path as a unit's setting takes it, such as EnvironmentFile=: there quotes would be part of it.

    Raises ValueError for what such a setting cannot hold.
    """
    if not path.startswith("/") or any(ord(c) < 32 or ord(c) == 127 for c in path) or path != path.strip():
        raise ValueError(f"{path!r} cannot be a path in a unit")
    return path.replace("%", "%%")


def transient(words: list[str]) -> str:
    """Returns words as the command that systemd-run takes on a shell's line: it expands $ as a unit does, and no %."""
    return shell([word.replace("$", "$$") for word in words])


def _unit_word(word: str) -> str:
    if "\0" in word:
        raise ValueError("an argument cannot hold a NUL byte")
    if word and all(c.isascii() and (c.isalnum() or c in "-_./:=,+@") for c in word):
        return word
    return '"' + "".join(_UNIT_ESCAPES.get(c, c) for c in word) + '"'


def environment_line(name: str, value: str) -> str:
    """Returns one line of an environment file (systemd.exec(5), EnvironmentFile=).

    Raises ValueError for a name that is none, and for control characters, which systemd drops.
    """
    if not (name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()):
        raise ValueError(f"'{name}' cannot be the name of an environment variable")
    if any((ord(c) < 32 and c not in "\n\t") or ord(c) == 127 for c in value):
        raise ValueError(f"the value of {name} holds a control character")
    return f'{name}="' + "".join(_ENVIRONMENT_ESCAPES.get(c, c) for c in value) + '"'


def shell(words: list[str]) -> str:
    """Returns words as one command line of a POSIX shell."""
    return shlex.join(words)
