"""What a release changes against the live one: unit, environment, overlay, launch command, line by line."""

from __future__ import annotations

import difflib
import re
import shlex
from dataclasses import dataclass
from typing import Any

from .render import Rendered

_EXEC = "ExecStart="


@dataclass(frozen=True)
class Difference:
    """One part of a release: its name, and its hunks of a unified diff (none: it is the same)."""

    part: str
    lines: tuple[str, ...]

    @property
    def counts(self) -> tuple[int, int]:
        """Returns the lines that come and the lines that go."""
        return sum(line[0] == "+" for line in self.lines), sum(line[0] == "-" for line in self.lines)

    def as_json(self) -> dict[str, Any]:
        added, removed = self.counts
        return {"part": self.part, "added": added, "removed": removed, "lines": list(self.lines)}


def against(live: dict[str, Any], planned: Rendered) -> list[Difference]:
    """Returns what differs from the live release's texts, as the host has them.

    ``planned`` is rendered under the live release's number, so that numbers are no difference.
    """
    ours = {name: data.decode() for name, data in planned.files.items() if name != "launch"}
    theirs: dict[str, str] = dict(live["files"])
    unit = planned.unit
    command = _command(ours[unit])
    if live["adopted"]:
        adopted = next(iter(theirs.items()), ("none", ""))
        return [
            _compare("launch command", _options(live["arguments"]), _options(command)),
            _compare(f"unit ({adopted[0]}, not changed)", _without_command(adopted[1]), _without_command(ours[unit])),
        ]
    parts = [
        _compare("launch command", _options(_command(theirs.get(unit, ""))), _options(command)),
        _compare("unit", _without_command(theirs.get(unit, "")), _without_command(ours[unit])),
    ]
    for name in sorted((ours.keys() | theirs.keys()) - {unit}):
        before, after = theirs.get(name), ours.get(name)
        if before is None or after is None:
            text = after if before is None else before
            word = "new" if before is None else "gone"
            sign = "+" if before is None else "-"
            parts.append(Difference(name, (f"{sign} {word}: {len((text or '').splitlines())} lines",)))
        else:
            parts.append(_compare(name, _lines(before), _lines(after)))
    return [part for part in parts if part.lines]


def _compare(part: str, before: list[str], after: list[str]) -> Difference:
    # without its two lines of file names: '--- live' would look like an option that goes
    return Difference(part, tuple(difflib.unified_diff(before, after, lineterm="", n=1))[2:])


def _lines(text: str) -> list[str]:
    return text.splitlines()


def _without_command(text: str) -> list[str]:
    """Returns a unit's lines but its command and the comments, which name releases."""
    return [line for line in text.splitlines() if line and not line.startswith(("#", _EXEC))]


def _command(unit: str) -> list[str]:
    """Returns the words of a unit's command as the process gets them."""
    line = next((line for line in unit.splitlines() if line.startswith(_EXEC)), _EXEC)
    try:
        return [re.sub(r"([%$])\1", r"\1", word) for word in shlex.split(line[len(_EXEC) :])]
    except ValueError:
        return [line]


def _options(words: list[str]) -> list[str]:
    """Returns a command with each option and its value on a line, in the order of their names."""
    lines: list[str] = []
    for word in words:
        if word.startswith("--") or not lines or not lines[-1].startswith("--") or " " in lines[-1]:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    first = [line for line in lines if not line.startswith("--")]
    return first + sorted(line for line in lines if line.startswith("--"))
