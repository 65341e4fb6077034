"""The command line: codes, streams, words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ddops import __version__
from ddops.exit_codes import ExitCode, of_outcome


def ddops(*args: str, folder: Path, site: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "80"}
    if site:
        (folder / "site.yaml").write_text(site)
        environment["DDOPS_SITE"] = str(folder / "site.yaml")
    return subprocess.run(
        [sys.executable, "-m", "ddops", *args],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


UNREACHABLE = "hosts: {h: {address: 127.0.0.1, port: 1}}\nengine: {python: /p}\nmodel: /m\n"


def test_version(tmp_path: Path) -> None:
    assert ddops("--version", folder=tmp_path).stdout == f"ddops {__version__}\n"
    assert json.loads(ddops("version", "--json", folder=tmp_path).stdout) == {"version": __version__}


@pytest.mark.parametrize(
    "verb", ["deploy", "rollback", "status", "history", "logs", "adopt", "confirm", "version", "lab", "faults"]
)
def test_every_verb_explains_itself_in_80_columns(verb: str, tmp_path: Path) -> None:
    done = ddops(verb, "-h", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage:")
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["deplyo"], 2, "No such command"),
        (["deploy"], 2, "Missing argument"),
        (["deploy", "labb"], 2, "did you mean 'lab'?"),
        (["deploy", "lab", "--budget", "many"], 2, "valid integer"),
        (["deploy", "lab", "--budget", "0"], 2, "takes 1 to 64"),
        (["deploy", "lab", "--budget", "-3"], 2, "takes 1 to 64"),
        (["deploy", "lab", "--soak", "soon"], 2, "write 90, 60s, 10m or 1h"),
        (["deploy", "lab", "--drill", "fire"], 2, "known are: illegal-access, garbage"),
        (["deploy", "lab", "--graphs"], 5, "CUDA graphs do not exist on a CPU"),
        (["deploy", "lab", "--host", "g"], 2, "did you mean"),
        (["status", "--host", "x"], 2, "the site has h"),
        (["status"], 6, "cannot connect to h"),
        (["rollback", "--host", "root@127.0.0.1:1"], 6, "cannot connect"),
    ],
)
def test_a_mistake_has_its_code_and_its_words(args: list[str], code: int, says: str, tmp_path: Path) -> None:
    done = ddops(*args, folder=tmp_path, site=UNREACHABLE.replace("{h:", "{h: {address: 127.0.0.1, port: 1}, gg:")
                 if "g" in args else UNREACHABLE)  # fmt: skip
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_an_error_is_one_json_document_too(tmp_path: Path) -> None:
    done = ddops("status", "--json", folder=tmp_path, site=UNREACHABLE)
    assert done.returncode == 6
    assert json.loads(done.stdout)["error"]["code"] == 6


def test_no_site_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    done = ddops("status", folder=tmp_path)
    assert done.returncode == 2
    assert "ddops.yaml" in done.stderr
    assert "hint: ddops lab up" in done.stderr


@pytest.mark.parametrize(
    ("kind", "outcome", "code"),
    [
        ("deploy", "promoted", 0), ("deploy", "unchanged", 0), ("deploy", "rolled-back", 3),
        ("deploy", "rollback-failed", 4), ("deploy", "refused", 5), ("rollback", "rolled-back", 0),
        ("rollback", "rollback-failed", 4), ("rollback", "refused", 5), ("adopt", "adopted", 0),
        ("deploy", "what is this", 1),
        ("rollback", "promoted", 5),
    ],
)  # fmt: skip
def test_every_outcome_has_its_code(kind: str, outcome: str, code: int) -> None:
    assert of_outcome(kind, {"outcome": outcome}) == code


def test_a_success_whose_engine_is_gone_is_none() -> None:
    assert of_outcome("deploy", {"outcome": "promoted", "host": {"active": "active"}}) == 0
    assert of_outcome("deploy", {"outcome": "promoted", "host": {"active": "failed"}}) == 4


def test_every_code_is_documented() -> None:
    table = (Path(__file__).parents[2] / "docs/exit-codes.md").read_text()
    for code in ExitCode:
        assert f"| {int(code)} |" in table, code
