"""Unified diffs, applied without fuzz: every line of context stands where the diff says, or nothing is applied."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class DiffError(ValueError):
    """A diff that cannot be read, or that does not fit."""


@dataclass(frozen=True)
class Hunk:
    """Lines from ``start`` (1 is the first; 0 in an empty file) that are ``old`` and become ``new``."""

    start: int
    old: list[bytes]
    new: list[bytes]


@dataclass(frozen=True)
class FileDiff:
    """What is done to one file below site-packages; ``makes`` or ``removes`` it where the other side is /dev/null."""

    path: str
    hunks: list[Hunk]
    makes: bool
    removes: bool


def parse(text: bytes) -> list[FileDiff]:
    """Returns the parts of a diff, also one of git's; raises DiffError for anything that is not understood.

    Renames, modes and binary parts are refused: silence about them would leave a half-applied diff.
    """
    found: list[FileDiff] = []
    lines = _LINE.findall(text)
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith((b"rename ", b"copy ", b"old mode ", b"GIT binary ", b"Binary files ")):
            raise DiffError(f"line {at + 1}: {line.decode(errors='replace').strip()}: only changes of text are taken")
        if line.startswith(b"@@"):
            raise DiffError(f"line {at + 1}: a hunk of no file")
        if not line.startswith(b"--- "):
            at += 1  # git's own lines, a description
            continue
        if at + 1 >= len(lines) or not lines[at + 1].startswith(b"+++ "):
            raise DiffError(f"line {at + 1}: --- without +++")
        old, new = _name(line), _name(lines[at + 1])
        hunks, after = _hunks(lines, at + 2)
        if old is None and new is None:
            raise DiffError(f"line {at + 1}: of no file into no file")
        if old is not None and new is not None and old != new:
            raise DiffError(f"line {at + 1}: {old} would become {new}")
        found.append(FileDiff(str(new or old), hunks, makes=old is None, removes=new is None))
        at = after
    if not found:
        raise DiffError("it changes no file")
    return found


def _name(line: bytes) -> str | None:
    """Returns a path below site-packages: a/ or b/ and the repository's python/ are left out."""
    name = line[4:].decode(errors="replace").split("\t")[0].rstrip("\r\n")
    if name == "/dev/null":
        return None
    parts = list(PurePosixPath(name).parts)
    if parts and parts[0] in ("a", "b"):
        parts = parts[1:]
    if parts and parts[0] == "python":
        parts = parts[1:]
    if len(parts) < 2 or parts[0] != "sglang" or ".." in parts:
        raise DiffError(f"{name} is no file of the package sglang")
    return "/".join(parts)


def _hunks(lines: list[bytes], at: int) -> tuple[list[Hunk], int]:
    found = []
    while at < len(lines) and (head := _HUNK.match(lines[at])):
        start = int(head[1])
        want_old, want_new = int(head[2] or 1), int(head[4] or 1)
        begins = at
        old: list[bytes] = []
        new: list[bytes] = []
        at += 1
        while at < len(lines) and (len(old) < want_old or len(new) < want_new or lines[at].startswith(b"\\")):
            mark, rest = lines[at][:1], lines[at][1:]
            if mark == b"\\":
                _cut_newline(lines[at - 1][:1], old, new)
            elif mark in (b" ", b"-", b"+"):
                old += [rest] if mark != b"+" else []
                new += [rest] if mark != b"-" else []
            elif lines[at] in (b"\n", b"\r\n"):  # an empty line of context that an editor has stripped
                old.append(lines[at])
                new.append(lines[at])
            else:
                break
            at += 1
        if (len(old), len(new)) != (want_old, want_new):
            raise DiffError(f"line {begins + 1}: the hunk has not as many lines as it says")
        found.append(Hunk(start, old, new))
    if not found:
        raise DiffError(f"line {at + 1}: no hunk")
    return found, at


def _cut_newline(mark: bytes, old: list[bytes], new: list[bytes]) -> None:
    """Takes the newline off the line before ``\\ No newline at end of file``."""
    for side, marks in ((old, b" -"), (new, b" +")):
        if side and mark in (marks[:1], marks[1:]):
            side[-1] = side[-1][:-1]


def apply(diff: FileDiff, text: bytes | None) -> bytes | None:
    """Returns what becomes of a file (None: it is not there); raises DiffError where a line is not as expected."""
    if diff.makes != (text is None):
        raise DiffError(f"{diff.path} {'is there already' if diff.makes else 'is not there'}")
    lines = _LINE.findall(text or b"")
    done: list[bytes] = []
    at = 0
    for hunk in diff.hunks:
        begin = hunk.start if not hunk.old else hunk.start - 1
        if begin < at:
            raise DiffError(f"{diff.path}: hunks are not in order at line {hunk.start}")
        for offset, want in enumerate(hunk.old):
            number = begin + offset
            if number >= len(lines) or lines[number] != want:
                raise DiffError(f"{diff.path}:{number + 1} is not what the diff expects")
        if begin > len(lines):
            raise DiffError(f"{diff.path} has no line {begin}")
        done += [*lines[at:begin], *hunk.new]
        at = begin + len(hunk.old)
    done += lines[at:]
    if diff.removes:
        if done:
            raise DiffError(f"{diff.path} would be removed with lines that the diff does not name")
        return None
    return b"".join(done)


def apply_all(texts: dict[str, bytes], read: Callable[[str], bytes | None]) -> dict[str, bytes | None]:
    """Applies whole diffs in the order of their names; returns every touched file as it is then.

    ``read`` returns a file as it is before, None where there is none. Raises DiffError naming the diff.
    """
    done: dict[str, bytes | None] = {}
    for name, text in sorted(texts.items()):
        try:
            for part in parse(text):
                done[part.path] = apply(part, done[part.path] if part.path in done else read(part.path))
        except DiffError as error:
            raise DiffError(f"{name}: {error}") from None
    return done
