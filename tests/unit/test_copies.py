"""The operator's copy of a ledger, and what the commands make of it where a host does not answer."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddops import ledger, profile, tried
from ddops.agent import database
from ddops.copies import Copy
from ddops.errors import Refused, Unreachable, UsageError
from ddops.tried import Filter

NOW = {"sglang": "0.5.16", "environment": "e", "model": "m", "overlay": "o", "driver": "580.1"}
ID, OTHER = "a" * 32, "b" * 32


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of the test's own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


def entry(seq: int, verdict: str | None = "good", budget: int = 8, **more: Any) -> dict[str, Any]:
    gate = {"gate": "acceptance", "passed": True, "what": "", "accept_length": 2.0, "tok_s": None, "evidence": {}}
    outcome = {"good": "promoted", "slower": "not-better"}.get(verdict or "", "rolled-back")
    brief = {"operation": seq, "kind": "deploy", "outcome": outcome, "ended": f"2026-01-0{seq}T00:00:00Z"}
    return {
        **{"seq": seq, "id": f"operation-{seq:06d}", "kind": "deploy", "outcome": outcome, "verdict": verdict},
        **{"ended": brief["ended"], "what": outcome, "release": seq, "drill": None, "profile": "lab"},
        **{
            "budget": budget,
            "graphs": False,
            "algorithm": "NGRAM",
            "max_running": 8,
            **NOW,
            "verdicts": [gate],
            "brief": brief,
        },
        **more,
    }


class Host:
    """The agent of gpu-1, whose ledger has these entries."""

    class host:
        name = "gpu-1"

    service = "lab"

    def __init__(self, *entries: dict[str, Any], id: str | None = ID, problem: str = "") -> None:
        self.entries, self.id, self.problem = entries, id, problem
        self.asked: list[dict[str, int]] = []

    def ask(self, call: str, copy: dict[str, int], about: dict[str, Any] | None) -> Any:
        assert call == "ledger"
        self.asked.append(copy)
        after = copy.get(self.id or "", 0)
        found = [each for each in self.entries if each["seq"] > after]
        return {"id": self.id, "entries": found, "problem": self.problem, "stack": NOW}


def ask(host: Host) -> ledger.Book:
    return ledger.ask(host, {})  # type: ignore[arg-type]


def numbers(book: ledger.Book) -> list[int]:
    return [int(each["id"][-6:]) for each in book.entries]


def test_the_host_is_asked_for_what_the_copy_lacks_and_the_copy_answers_without_it(home: Path) -> None:
    first, later = Host(entry(1), entry(2, "bad")), Host(entry(1), entry(2, "bad"), entry(3))
    assert numbers(ask(first)) == [1, 2]
    book = ask(later)
    assert (first.asked, later.asked) == ([{}], [{ID: 2}])
    assert (numbers(book), book.from_copy, book.stack) == ([1, 2, 3], False, NOW)

    copy = ledger.offline("gpu-1", None)
    assert (numbers(copy), copy.from_copy, copy.service) == ([1, 2, 3], True, "lab")
    assert {key: copy.stack[key] for key in NOW} == NOW
    assert copy.entries == book.entries
    assert copy.operations() == [each["brief"] for each in book.entries]
    modes = {path.stat().st_mode & 0o777 for path in [home, *home.rglob("*")]}
    assert modes == {0o700, 0o600}, "nobody else reads it"


def test_a_host_with_another_ledger_does_not_take_the_former_one_away() -> None:
    ask(Host(entry(1), entry(2, "bad")))
    anew = Host(entry(1, "slower"), id=OTHER)
    assert [each["verdict"] for each in ask(anew).entries] == ["slower"]
    assert anew.asked == [{ID: 2}]
    assert Copy("gpu-1", "lab").known() == {ID: 2, OTHER: 1}
    assert numbers(ledger.offline("gpu-1", "lab")) == [1]


def spoil(home: Path, how: Callable[[Path], object]) -> Path:
    [path] = home.rglob("*.db")
    how(path)
    return path


def test_a_damaged_copy_is_put_aside_and_taken_anew(home: Path) -> None:
    ask(Host(entry(1), entry(2)))
    path = spoil(home, lambda path: path.write_bytes(b"?" * 3000))
    with pytest.raises(Refused, match="no copy"):
        ledger.offline("gpu-1", None)
    host = Host(entry(1), entry(2))
    assert (numbers(ask(host)), host.asked) == ([1, 2], [{}])
    assert path.with_suffix(".damaged").read_bytes() == b"?" * 3000
    assert numbers(ledger.offline("gpu-1", None)) == [1, 2]


def test_a_copy_with_a_gap_is_filled(home: Path) -> None:
    assert Copy("gpu-1", "lab").take({"id": ID, "entries": [entry(3)], "problem": ""}) == ""
    host = Host(entry(1), entry(2), entry(3))
    assert numbers(ask(host)) == [1, 2, 3]
    assert host.asked == [{ID: 0}]


def test_a_copy_that_cannot_be_written_is_told_and_takes_nothing_away(home: Path) -> None:
    home.write_text("a file where a folder belongs")
    book = ask(Host(entry(1), entry(2)))
    assert numbers(book) == [1, 2]
    assert "the copy here was not brought up to date" in book.warnings[0]


def test_a_copy_that_somebody_else_holds_is_told_and_everything_asked_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_BUSY_S", 0.05)
    ask(Host(entry(1), entry(2)))
    [path] = home.rglob("*.db")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    host = Host(entry(1), entry(2), entry(3))
    book = ask(host)
    assert (numbers(book), host.asked) == ([1, 2, 3], [{ID: 2}, {}])
    assert "database is locked" in book.warnings[0]
    holder.close()


def test_a_newer_ones_copy_is_left_alone(home: Path) -> None:
    ask(Host(entry(1), entry(2)))

    def newer(path: Path) -> None:
        with sqlite3.connect(path) as sql:
            sql.execute("PRAGMA user_version = 2")

    path = spoil(home, newer)
    before = path.read_bytes()
    book = ask(Host(entry(1), entry(2), entry(3)))
    assert numbers(book) == [1, 2, 3]
    assert "a newer ddops wrote it" in book.warnings[0]
    assert path.read_bytes() == before


def test_a_host_without_a_ledger_is_told_and_its_copy_stays() -> None:
    ask(Host(entry(1)))
    book = ask(Host(entry(1), entry(2), id=None, problem="no room"))
    assert (numbers(book), book.warnings) == ([1, 2], ("the host's ledger: no room",))
    assert numbers(ledger.offline("gpu-1", None)) == [1]


@pytest.mark.parametrize("name", ["../../evil", "", "A" * 32, ID + "\n"])
def test_an_id_that_is_none_names_no_file(home: Path, name: str) -> None:
    assert "is no ledger's id" in Copy("gpu-1", "lab").take({"id": name, "entries": [], "problem": ""})
    assert not home.exists()


@pytest.mark.parametrize("host", ["..", ".", "ops@192.0.2.7", "a/b"])
def test_a_hosts_name_is_one_folder(home: Path, host: str) -> None:
    assert Copy(host, "lab").take({"id": ID, "entries": [entry(1)], "problem": ""}) == ""
    [path] = home.rglob("*.db")
    assert len(path.relative_to(home / "ddops/ledgers").parts) == 3
    assert numbers(ledger.offline(host, None)) == [1]


def test_without_a_copy_the_reason_is_what_is_raised() -> None:
    lost = Unreachable("cannot connect to gpu-1")

    def connect() -> Any:
        raise lost

    with pytest.raises(Unreachable, match="cannot connect"):
        ledger.reach("gpu-1", None, connect, None, offline_only=False)
    ask(Host(entry(1)))
    book = ledger.reach("gpu-1", None, connect, None, offline_only=False)
    assert (book.unreachable, book.from_copy, numbers(book)) == (lost, True, [1])
    assert ledger.reach("gpu-1", None, connect, None, offline_only=True).unreachable is None
    Copy("gpu-1", "other").take({"id": ID, "entries": [], "problem": ""})
    with pytest.raises(UsageError, match="which service"):
        ledger.offline("gpu-1", None)


def rows(*entries: dict[str, Any], every: bool = False, **wanted: Any) -> list[dict[str, Any]]:
    return tried.rows(ask(Host(*entries)), None, Filter(**wanted), every=every)


def test_a_table_has_the_newest_verdict_of_each_kind_and_says_what_is_stale() -> None:
    seen = (
        entry(1, "bad", budget=12, driver="570.1"),
        entry(2),
        entry(3, None, budget=12, drill="garbage"),
        entry(4),
        entry(5, "slower", budget=12),
    )
    keys = ("budget", "outcome", "times", "release", "accept_length", "stale")
    assert [tuple(row[key] for key in keys) for row in rows(*seen)] == [
        (8, "good", 2, 4, 2.0, []),
        (12, "slower", 1, 5, 2.0, []),
        (12, "bad", 1, 1, 2.0, ["driver 570.1 is now 580.1"]),
    ]
    assert [(row["release"], row["outcome"], row["drill"]) for row in rows(*seen, every=True, budget=12)] == [
        (5, "slower", None),
        (3, "rolled-back", "garbage"),
        (1, "bad", None),
    ]
    assert rows(*seen, graphs=True) == []
    assert rows(*seen, profile="b300") == []


def test_a_profiles_own_evidence_stands_beside_the_hosts() -> None:
    found = tried.rows(ask(Host(entry(1))), profile.load("b300"), Filter(profile="b300", budget=12), every=False)
    [row] = found
    assert (row["source"], row["outcome"], row["release"]) == ("profile", "bad", None)
    assert row["stale"] == ["sglang was not recorded, is now 0.5.16", "overlay was not recorded, is now o"]


def test_both_commands_read_the_copy_where_the_host_is_gone(home: Path, tmp_path: Path) -> None:
    ask(Host(entry(1), entry(2, "bad", budget=12, driver="570.1")))
    (tmp_path / "site.yaml").write_text(
        "hosts: {gpu-1: {address: 127.0.0.1, port: 1, profile: lab}}\nengine: {python: /p}\nmodel: /m\n"
    )
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_COLOR": "1", "XDG_DATA_HOME": str(home)}

    def ddops(*args: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "ddops", *args, "--site", str(tmp_path / "site.yaml")]
        return subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)

    table = ddops("evidence", "lab", "--budget", "12")
    assert table.returncode == 6
    assert "stale: driver 570.1 is now 580.1" in table.stdout
    assert "copy: as gpu-1 told it" in table.stderr
    assert "cannot connect to gpu-1" in table.stderr
    document = json.loads(ddops("evidence", "--json").stdout)
    assert (document["source"], document["host"], len(document["evidence"])) == ("copy", "gpu-1", 2)
    assert "cannot connect" in document["unreachable"]
    offline = ddops("history", "--offline", "--json")
    assert (offline.returncode, "cannot connect" in offline.stderr) == (0, False)
    assert [each["outcome"] for each in json.loads(offline.stdout)["operations"]] == ["promoted", "rolled-back"]
    for path in home.rglob("*.db"):
        path.unlink()
    gone = ddops("history")
    assert (gone.returncode, gone.stdout) == (6, "")
