"""How ddops behaves on a terminal, to scripts and to shells."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddops import exit_codes, manual, settings
from ddops.cli import output
from ddops.cli.app import command
from ddops.exit_codes import ExitCode
from tests.unit.test_command_line import UNREACHABLE, ddops


def on_a_terminal(argv: list[str], **variables: str) -> str:
    """Runs a command with stdout and stderr on a terminal; returns all that it wrote there."""
    mine, its = pty.openpty()
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "xterm", **variables}
    with subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=its, stderr=its) as process:
        os.close(its)
        written = b""
        while True:
            try:
                data = os.read(mine, 4096)
            except OSError:  # nobody holds the other end any more
                break
            written += data
        process.wait(30)
    os.close(mine)
    return written.decode()


STEPS = """
from ddops.cli.progress import Progress
show = Progress()
show({"event": "step", "step": "load"})
show({"event": "alive"})
show({"event": "step-done", "step": "load", "seconds": 1.0})
"""


def test_colour_and_lines_that_are_written_over_are_for_terminals_that_want_them() -> None:
    error, steps = [sys.executable, "-m", "ddops", "help", "nothing"], [sys.executable, "-c", STEPS]
    assert "\033[31merror:\033[0m" in on_a_terminal(error)
    assert "\033" not in on_a_terminal(error, NO_COLOR="1")
    assert "\033" not in on_a_terminal(error, TERM="dumb")
    assert "\r\033[K" in on_a_terminal(steps)
    dumb = on_a_terminal(steps, TERM="dumb")
    assert "\033" not in dumb
    assert "load" in dumb
    assert "\033[3" not in on_a_terminal(steps, NO_COLOR="1"), "moving the cursor is no colour"


AT_A_HOST = (
    ["status"], ["history"], ["logs"], ["watch"], ["doctor"], ["diff", "lab"], ["deploy", "lab"], ["rollback"],
    ["adopt", "x", "--profile", "lab"], ["bench"], ["eval", "smoke", "--profile", "lab"], ["pause"], ["resume"],
    ["confirm"], ["sweep", "lab", "--budgets", "8"],
)  # fmt: skip


@pytest.mark.parametrize("args", AT_A_HOST, ids=lambda args: str(args[0]))
def test_a_terminal_is_told_at_once_what_a_command_does_and_then_whom_it_waits_for(
    args: list[str], tmp_path: Path
) -> None:
    (tmp_path / "site.yaml").write_text(UNREACHABLE)
    argv = [sys.executable, "-m", "ddops", *args]
    shown = on_a_terminal(argv, DDOPS_SITE=str(tmp_path / "site.yaml"), NO_COLOR="1")
    first, second, rest = shown.split("\r\n", 2)
    assert first == "reading the site file"
    assert second.startswith(("asking ", "connecting to "))
    assert "127.0.0.1" in rest or "cannot connect" in rest


def test_the_first_word_comes_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "typer").mkdir()
    (tmp_path / "typer/__init__.py").write_text("import os; os.write(2, b'typer comes'); os._exit(3)")
    shown = on_a_terminal([sys.executable, "-m", "ddops", "status"], PYTHONPATH=str(tmp_path), NO_COLOR="1")
    assert shown == "reading the site file\r\ntyper comes"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion(shell: str) -> None:
    def run(**variables: str) -> str:
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables}
        argv = [str(Path(sys.executable).with_name("ddops"))]
        done = subprocess.run(
            argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        )
        return done.stdout

    script = run(_DDOPS_COMPLETE=f"source_{shell}")
    assert f"_DDOPS_COMPLETE=complete_{shell}" in script
    words = {"COMP_WORDS": "ddops dep", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "ddops dep"}
    found = run(_DDOPS_COMPLETE=f"complete_{shell}", _TYPER_COMPLETE_FISH_ACTION="get-args", **words)
    assert "deploy" in found
    assert "rollback" not in found


def commands(of: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, each in of.commands.items():
        yield (*path, name), each
        if getattr(each, "commands", None):
            yield from commands(each, (*path, name))


def test_every_command_is_explained_within_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ddops.cli.app import run

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    for path, _ in commands(command()):
        assert run([*path, "-h"]) == 0, path
        text = capsys.readouterr().out
        assert text.startswith("Usage: "), path
        assert max(len(line) for line in text.splitlines()) <= 80, path


@pytest.mark.parametrize("topic", list(manual.topics()))
def test_a_topic_is_told_in_80_columns_and_as_a_document(topic: str, tmp_path: Path) -> None:
    text = ddops("help", topic, folder=tmp_path).stdout
    if topic != "man":
        assert max(len(line) for line in text.splitlines()) <= 80
    document = json.loads(ddops("help", topic, "--json", folder=tmp_path).stdout)
    assert document == {"topic": topic, "text": text.rstrip("\n")}
    assert topic in ddops("help", folder=tmp_path).stdout


def test_every_code_and_variable_is_explained_and_an_unknown_topic_names_the_nearest(tmp_path: Path) -> None:
    assert [each.code for each in exit_codes.MEANINGS] == list(ExitCode)
    told = ddops("help", "exit-codes", folder=tmp_path).stdout
    assert [line.split()[0] for line in told.splitlines() if line[0] != " "] == [str(int(code)) for code in ExitCode]
    assert [line.split()[0] for line in manual.variables().splitlines()] == list(settings.VARIABLES)
    wrong = ddops("help", "exit-code", "--json", folder=tmp_path)
    assert wrong.returncode == 2
    assert json.loads(wrong.stdout)["error"]["hint"] == "did you mean 'exit-codes'?"


def test_the_manual_page_has_every_command_and_every_option() -> None:
    page = manual.page(command()).replace(r"\-", "-")
    for path, each in commands(command()):
        if getattr(each, "commands", None):
            continue
        part = page.partition(f".SS ddops {' '.join(path)}")[2].partition("\n.S")[0]
        assert part, path
        for parameter in each.params:
            for option in parameter.opts if parameter.param_type_name == "option" and parameter.name != "help" else ():
                assert option in part, (path, option)
    assert not [line for line in page.splitlines() if line.startswith("'")]


def test_a_mistake_of_the_command_line_is_a_document_too(tmp_path: Path) -> None:
    for args, what, hint in (
        (["deplyo"], "No such command 'deplyo'", "ddops -h"),
        (["deploy"], "Missing argument", "ddops deploy -h"),
        (["site", "chekc"], "No such command 'chekc'", "ddops site -h"),
        (["deploy", "lab", "--budgte", "8"], "No such option: --budgte", "ddops deploy -h"),
    ):
        done = ddops(*args, "--json", folder=tmp_path, site=UNREACHABLE)
        assert done.returncode == 2
        error = json.loads(done.stdout)["error"]
        assert error["code"] == 2
        assert what in error["what"]
        assert error["hint"] == hint
        assert "Traceback" not in done.stderr
        assert ddops(*args, folder=tmp_path, site=UNREACHABLE).stdout == ""


def test_what_comes_from_a_host_cannot_play_with_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine prints what its users wrote: no title, no cleared screen, no line turned around."""
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b1;1H\r\u202ekcatta"
    log = tmp_path / "log"
    log.write_text(f"{hostile} torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n")
    done = ddops("faults", "classify", str(log), folder=tmp_path)
    assert "illegal" in done.stdout
    assert not [c for c in done.stdout + done.stderr if c in "\x1b\x07\x9b\r\u202e"]

    output.data(f"{hostile} \x1b[31mred\x1b[0m\tend")
    shown = capsys.readouterr().out
    assert shown == "\\x1b]0;owned\\x07\\x1b[2J\\x9b1;1H\\r\\u202ekcatta \x1b[31mred\x1b[0m\tend\n"


def offered(words: str, **variables: str) -> list[str]:
    """Returns what a shell is offered at the end of a line."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables}
    shell = {"_DDOPS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [Path(sys.executable).parent / "ddops"],
        env={**environment, **shell},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_verbs_profiles_hosts_suites_and_rules(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("hosts: {gpu-2: {address: gpu-2}, gpu-1: {address: gpu-1}}\nengine: {python: /p}\nmodel: /m\n")
    assert offered("ddops dep") == ["deploy"]
    for verb in ("deploy", "diff", "render", "sweep", "evidence", "profile show"):
        assert offered(f"ddops {verb} ") == ["b300", "lab", "rtx-pro-6000"]
    assert offered(f"ddops deploy b300 --site {site} --host ") == ["gpu-1", "gpu-2"]
    assert offered("ddops status --host ", DDOPS_SITE=str(site)) == ["gpu-1", "gpu-2"]
    assert offered("ddops eval c") == ["coding"]
    assert offered("ddops deploy b300 --drill ") == ["illegal-access", "garbage"]
    assert "illegal-memory-access" in offered("ddops faults explain ill")
    assert offered("ddops help m") == ["man"]


def test_a_shell_is_offered_no_host_where_the_site_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("hosts: [")
    for named in (tmp_path / "site.yaml", tmp_path / "absent.yaml"):
        assert offered("ddops status --host ", DDOPS_SITE=str(named)) == []
