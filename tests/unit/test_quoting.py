"""Values come through systemd's and the shell's parsers as they went in."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddops import quoting

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


def systemd_words(line: str) -> list[str]:
    """Reads a command line as systemd does: C escapes in quotes, %% and $$ for one of each."""
    parsed, word, at, quoted = [], None, 0, False
    escapes = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"'}
    while at < len(line):
        char = line[at]
        if char == '"':
            quoted, word = not quoted, word or ""
        elif char == " " and not quoted:
            parsed.append(word)
            word = None
        elif char == "\\":
            at += 1
            word = (word or "") + escapes[line[at]]
        elif char in "%$":
            at += 1
            assert line[at] == char, "a single one would be expanded"
            word = (word or "") + char
        else:
            word = (word or "") + char
        at += 1
    return [w for w in [*parsed, word] if w is not None]


@given(st.lists(words, min_size=1, max_size=5))
def test_a_units_command_comes_through(arguments: list[str]) -> None:
    line = quoting.unit_command(arguments)
    assert "\n" not in line
    assert systemd_words(line) == arguments


@given(st.lists(words, min_size=1, max_size=5))
def test_a_shells_command_comes_through(arguments: list[str]) -> None:
    assert shlex.split(quoting.shell(arguments)) == arguments


def test_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quoting.unit_command(["a\0b"])


@pytest.mark.parametrize("value", ["a\x07b", "\x1b[31m", "a\rb"])
def test_control_characters_in_an_environment_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        quoting.environment_line("NAME", value)


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "Ä"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        quoting.environment_line(name, "x")


printable = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=30)


@settings(max_examples=30)
@given(printable)
def test_an_environment_line_means_the_same_to_a_shell(value: str) -> None:
    """systemd reads double quotes as a shell does, but expands nothing."""
    line = quoting.environment_line("NAME", value)
    done = subprocess.run(
        [shutil.which("sh") or "/bin/sh", "-c", f'{line}; printf %s "$NAME"'],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    assert done.stdout.decode() == value


@given(st.lists(words, min_size=1, max_size=5))
def test_a_transient_units_command_comes_through(arguments: list[str]) -> None:
    """systemd expands $ in it, and turns $$ into one; a % stays as it is."""
    parsed = shlex.split(quoting.transient(arguments))
    assert [word.replace("$$", "\0") for word in parsed] == [word.replace("$", "\0") for word in arguments]


@pytest.mark.parametrize("path", ["relative", "/a\nb", "/a\x07", "/a ", ""])
def test_what_cannot_be_a_path_in_a_unit_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="cannot be a path"):
        quoting.unit_path(path)


def test_a_path_in_a_unit_has_no_specifiers() -> None:
    assert quoting.unit_path("/a b/%s") == "/a b/%%s"
