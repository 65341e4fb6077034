"""The host's ledger: what SQLite holds is what the operations' files say, whatever happens to the database."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ddops
from ddops.agent import entries, evaluations, evidence, ledger, serve, stack
from ddops.agent.layout import Layout, layout_of
from ddops.agent.releases import Release

STACK = {"sglang": "0.5.16", "environment": "e", "model": "m", "driver": "580.95.05"}
RELEASE = {"release": 3, "profile": "lab", "budget": 12, "graphs": True, "algorithm": "NGRAM", "overlay": "o"}
GATES = [
    {"gate": "smoke", "passed": True, "evidence": {"asked": 16, "sample": "Paris", "lines": ["a line"]}},
    {"gate": "acceptance", "passed": True, "evidence": {"accept_length": {"cold": 2.5, "warm": 2.25}}},
    {"gate": "throughput", "passed": True, "evidence": {"tok_s": 285.0}},
]


@pytest.fixture
def host(tmp_path: Path) -> Layout:
    """A service on a host with three operations."""
    layout = layout_of("lab", tmp_path / "state", tmp_path / "run")
    layout.operations.mkdir(parents=True)
    told(layout, 1, "promoted", verdicts=GATES)
    told(layout, 2, "rolled-back", "soak")
    told(layout, 3, "not-better", verdicts=GATES[:1])
    return layout


def told(layout: Layout, number: int, outcome: str, failed: str | None = None, **more: Any) -> Path:
    path = layout.operations / f"{number:06d}.json"
    document = {
        "operation": number,
        "kind": "deploy",
        "outcome": outcome,
        "ended": f"2026-01-01T00:00:{number:02d}Z",
        "reason": {"code": "gate-failed", "what": f"{failed} broke"} if failed else None,
        "release": {**RELEASE, "stack": STACK},
        "steps": [{"step": failed, "seconds": 1.0, "ok": False}] if failed else [],
        "verdicts": [],
        **more,
    }
    path.write_text(json.dumps(document))
    return path


def rows(layout: Layout, query: str) -> list[tuple[Any, ...]]:
    """Asks the database as somebody else would, with SQLite alone."""
    with sqlite3.connect(layout.ledger) as sql:
        return sql.execute(query).fetchall()


def ids(found: dict[str, Any]) -> list[str]:
    return [entry["id"] for entry in found["entries"]]


ALL = ["operation-000001", "operation-000002", "operation-000003"]


def test_the_database_holds_each_verdict_with_its_stack(host: Layout) -> None:
    assert ledger.answer(host, {})["problem"] == ""
    assert rows(host, "SELECT outcome, verdict, what FROM entries ORDER BY seq") == [
        ("promoted", "good", "promoted"),
        ("rolled-back", "bad", "soak broke"),
        ("not-better", "slower", "not-better"),
    ]
    stood_on = "profile, budget, graphs, algorithm, sglang, overlay, environment, model, driver"
    assert rows(host, f"SELECT DISTINCT {stood_on} FROM entries") == [  # noqa: S608
        ("lab", 12, 1, "NGRAM", "0.5.16", "o", "e", "m", "580.95.05")
    ]
    assert rows(host, "SELECT entry, gate, passed, accept_length, tok_s, evidence FROM verdicts ORDER BY rowid") == [
        (1, "smoke", 1, None, None, '{"asked": 16, "sample": "Paris"}'),
        (1, "acceptance", 1, 2.25, None, '{"accept_length": {"cold": 2.5, "warm": 2.25}}'),
        (1, "throughput", 1, None, 285.0, '{"tok_s": 285.0}'),
        (3, "smoke", 1, None, None, '{"asked": 16, "sample": "Paris"}'),
    ]
    assert host.ledger.stat().st_mode & 0o777 == 0o600
    found, problem = ledger.read(host)
    assert problem == ""
    assert [{k: v for k, v in entry.items() if k != "seq"} for entry in found] == entries.from_files(host)


def test_a_copy_is_told_what_it_lacks_and_nothing_twice(host: Layout) -> None:
    first = ledger.answer(host, {})
    assert ids(first) == ALL
    assert ids(ledger.answer(host, {first["id"]: 3})) == []
    told(host, 4, "promoted")
    later = ledger.answer(host, {first["id"]: 3})
    assert (ids(later), [entry["seq"] for entry in later["entries"]]) == (["operation-000004"], [4])
    assert ids(ledger.answer(host, {"0" * 32: 3})) == [*ALL, "operation-000004"], "that is another ledger's number"


def spoil_bytes(path: Path) -> None:
    path.write_bytes(b"\x17" * 5000)


def spoil_middle(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * 4096 + data[8192:])


def spoil_tables(path: Path) -> None:
    with sqlite3.connect(path) as sql:
        sql.execute("DROP TABLE verdicts")


def spoil_values(path: Path) -> None:
    with sqlite3.connect(path) as sql:
        sql.execute("UPDATE entries SET brief = '{' WHERE seq = 2")


@pytest.mark.parametrize("spoil", [spoil_bytes, spoil_middle, spoil_tables, spoil_values])
def test_a_damaged_database_is_made_anew_from_the_files(host: Layout, spoil: Any) -> None:
    before = ledger.answer(host, {})
    expected = rows(host, "SELECT id, verdict, driver, brief FROM entries")
    spoil(host.ledger)
    spoiled = host.ledger.read_bytes()
    found, problem = ledger.read(host)
    assert ([entry["id"] for entry in found], problem != "") == (ALL, True), "a plan does not need it"
    assert host.ledger.read_bytes() == spoiled, "and changes nothing"

    after = ledger.answer(host, {before["id"]: 3})
    assert "it was damaged" in after["problem"]
    assert (ids(after), after["id"] != before["id"]) == (ALL, True), "its numbers are others: a copy is told all"
    assert rows(host, "SELECT id, verdict, driver, brief FROM entries") == expected
    aside = host.ledger.with_name("ledger.db.damaged")
    assert aside.read_bytes() == spoiled
    assert str(aside) in ledger.answer(host, {})["problem"], "also to those who ask later"
    aside.unlink()
    assert ledger.answer(host, {}) == {**after, "problem": ""}


def test_a_newer_ones_database_is_left_alone(host: Layout) -> None:
    ledger.answer(host, {})
    with sqlite3.connect(host.ledger) as sql:
        sql.execute("PRAGMA user_version = 2")
    before = host.ledger.read_bytes()
    told(host, 4, "promoted")
    found = ledger.answer(host, {})
    assert (found["id"], ids(found)) == (None, [*ALL, "operation-000004"])
    assert "a newer ddops wrote it (schema 2, this one knows 1)" in found["problem"]
    assert host.ledger.read_bytes() == before


def test_odd_values_are_stored_and_nothing_keeps_a_result_back(host: Layout) -> None:
    told(host, 4, "rolled-back", "load", reason={"what": "a line with \udcff in it"})
    told(host, 5, "promoted", release={**RELEASE, "budget": [12]})
    told(host, 6, "promoted", release={**RELEASE, "release": 1 << 70})
    found = ledger.answer(host, {})
    assert (found["problem"], ids(found)) == ("", [*ALL, "operation-000004"])
    assert rows(host, "SELECT what FROM entries WHERE seq = 4") == [("a line with \\udcff in it",)]
    nowhere = Layout("lab", Path("/no\0where"), host.run)
    result = {"event": "result", "result": {"outcome": "promoted"}}
    events = list(serve._with_ledger(nowhere, {"copy": {}}, iter([{"event": "step"}, result])))
    assert [event["event"] for event in events] == ["step", "ledger", "result"]
    assert "null byte" in events[1]["problem"]


def in_a_process(layout: Layout, before: str = "", count: int = 1) -> list[dict[str, Any]]:
    """Asks the ledger in processes of their own, all at once; ``before`` is code that runs first."""
    code = (
        f"import sys, json\nsys.path.insert(0, {str(Path(ddops.__file__).parent)!r})\n{before}\n"
        "from agent import ledger\nfrom agent.layout import Layout\nfrom pathlib import Path\n"
        f"layout = Layout('lab', Path({str(layout.root)!r}), Path({str(layout.run)!r}))\n"
        "sys.stdin.readline()\nprint(json.dumps(ledger.answer(layout, {})))"
    )
    argv = [sys.executable, "-ISB", "-c", code]
    started = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    for process in started:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    return [json.loads(process.communicate()[0]) for process in started]


def test_a_full_disk_is_told_and_the_files_are_read(host: Layout) -> None:
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))"
    [found] = in_a_process(host, limit)
    assert (found["id"], ids(found)) == (None, ALL)
    assert str(host.ledger) in found["problem"]
    assert ids(ledger.answer(host, {})) == ALL, "it is filled when there is room again"
    assert ledger.answer(host, {})["problem"] == ""


def test_a_python_without_sqlite_reads_the_files(host: Layout) -> None:
    [found] = in_a_process(host, "sys.modules['sqlite3'] = None")
    assert (found["id"], ids(found)) == (None, ALL)
    assert "no SQLite" in found["problem"]
    assert not host.ledger.exists()


def test_several_processes_at_once_make_one_ledger(host: Layout) -> None:
    for number in range(4, 60):
        told(host, number, "promoted", verdicts=GATES)
    found = in_a_process(host, count=4)
    assert len({each["id"] for each in found}) == 1
    assert {each["problem"] for each in found} == {""}
    assert [len(each["entries"]) for each in found] == [59] * 4
    assert rows(host, "SELECT count(*), count(DISTINCT id), max(seq) FROM entries") == [(59, 59, 59)]
    assert rows(host, "SELECT count(*) FROM verdicts") == [(3 + 1 + 56 * 3,)]


def test_a_plan_reads_what_the_database_lacks_and_makes_none(host: Layout) -> None:
    assert [entry["id"] for entry in ledger.read(host)[0]] == ALL
    assert sorted(path.name for path in host.root.iterdir()) == ["operations"]
    host.ledger.touch()
    assert ledger.read(host)[1] == "", "another process is about to make it"
    ledger.answer(host, {})
    told(host, 4, "promoted").write_text('{"torn')
    assert [entry["id"] for entry in ledger.read(host)[0]] == ALL, "a damaged outcome does not hide the others"
    told(host, 4, "promoted")
    host.operations.joinpath("000001.json").unlink()
    assert [entry["id"] for entry in ledger.read(host)[0]] == [*ALL, "operation-000004"]
    assert rows(host, "SELECT count(*) FROM entries") == [(3,)]


def test_slower_is_neither_good_nor_bad(host: Layout) -> None:
    wanted = evidence.combination(RELEASE, STACK)
    found = evidence.of(ledger.read(host)[0], wanted)
    assert [entry["outcome"] for entry in found] == ["slower", "bad", "good"]
    bad = evidence.proven_bad(ledger.read(host)[0], wanted)
    assert bad is not None
    assert bad["what"] == "soak broke"
    told(host, 4, "promoted")
    assert evidence.proven_bad(ledger.read(host)[0], wanted) is None


@pytest.mark.parametrize("key", ["sglang", "environment", "model", "driver", "overlay"])
def test_what_has_changed_makes_a_verdict_stale_and_no_proof(host: Layout, key: str) -> None:
    now = {**evidence.combination(RELEASE, STACK), key: "another"}
    found = ledger.read(host)[0]
    assert evidence.proven_bad(found, now) is None
    was = {**STACK, "overlay": "o"}[key]
    assert [entry["changed"] for entry in evidence.of(found, now)] == [
        [{"name": key, "was": was, "now": "another"}]
    ] * 3


def test_a_driver_that_was_not_recorded_counts_as_changed(host: Layout) -> None:
    for number in (1, 2, 3):
        before = {key: value for key, value in STACK.items() if key != "driver"}
        told(host, number, "rolled-back", "load", release={**RELEASE, "stack": before})
    found = ledger.read(host)[0]
    assert evidence.proven_bad(found, evidence.combination(RELEASE, STACK)) is None
    on_a_cpu = evidence.combination(RELEASE, {**STACK, "driver": None})
    assert evidence.proven_bad(found, on_a_cpu) is not None


@pytest.mark.parametrize(
    ("was", "now", "stale"),
    [
        ("d", "d", False),
        ("d", "another", True),
        ("d", "", False),  # nothing is drafted with now: another algorithm, and told as that
        ("", "d", False),
        ("d", None, False),  # nobody has looked
        (None, "d", False),
    ],
)
def test_a_drafter_counts_where_one_drafted(host: Layout, was: str | None, now: str | None, stale: bool) -> None:
    for number in (1, 2, 3):
        told(host, number, "rolled-back", "load", release={**RELEASE, "stack": {**STACK, "drafter": was}})
    ledger.answer(host, {})
    wanted = evidence.combination(RELEASE, {**STACK, "drafter": now})
    for found in (entries.from_files(host), ledger.read(host)[0]):
        changed = [{"name": "drafter", "was": was, "now": now}] if stale else []
        assert [entry["changed"] for entry in evidence.of(found, wanted)] == [changed]
        assert (evidence.proven_bad(found, wanted) is None) == stale


def test_equal_verdicts_are_told_once_with_their_number(host: Layout) -> None:
    for number in (4, 5):
        told(host, number, "rolled-back", "load")
    found = evidence.of(ledger.read(host)[0], evidence.combination(RELEASE, STACK))
    assert [(entry["outcome"], entry["times"], entry["what"]) for entry in found] == [
        ("bad", 3, "load broke"),
        ("slower", 1, "not-better"),
        ("good", 1, "promoted"),
    ]


def evaluated(host: Layout, *, passed: bool, engine: dict[str, str]) -> str:
    release = Release(3, host.releases / "0003", "s", {"engine": engine, **RELEASE})
    found = {"right": 1, "judged": [{"why": "what the model wrote"}]}
    problems = [] if passed else ["1 of 21 programs is right"]
    result = {"suite": "coding", "release": RELEASE, "passed": passed, "problems": problems, "seconds": 2.0}
    return evaluations.keep(host, release, {**result, "evidence": found}, "me@here")


def environment(folder: Path) -> dict[str, str]:
    packages = folder / "lib/python3.11/site-packages/sglang-0.5.16.dist-info"
    packages.mkdir(parents=True)
    (packages / "RECORD").write_text("")
    (folder / "bin").mkdir()
    (folder / "bin/python").write_text("")
    (folder / "model").mkdir()
    return {"python": str(folder / "bin/python"), "model": str(folder / "model")}


def test_an_evaluation_is_a_verdict_on_the_stack_that_it_ran_on(host: Layout, tmp_path: Path) -> None:
    engine = environment(tmp_path / "engine")
    assert evaluated(host, passed=True, engine=engine) == ""
    assert evaluated(host, passed=False, engine=engine) == ""
    ledger.answer(host, {})
    kept = rows(host, "SELECT kind, verdict, budget, sglang, model FROM entries WHERE kind = 'eval' ORDER BY seq")
    digest = stack.describe(engine["python"], engine["model"], None)["model"]
    assert kept == [("eval", outcome, 12, "0.5.16", digest) for outcome in ("passed", "not passed")]
    gates = "SELECT gate, passed, what, evidence FROM verdicts WHERE gate = 'coding' ORDER BY rowid"
    assert rows(host, gates) == [
        ("coding", 1, "", '{"right": 1}'),
        ("coding", 0, "1 of 21 programs is right", '{"right": 1}'),
    ]
    assert not any("the model wrote" in path.read_text() for path in host.evaluations.iterdir())
    now = evidence.combination(RELEASE, stack.describe(engine["python"], engine["model"], None))
    assert evidence.proven_bad(ledger.read(host)[0], now) is None, "a suite forbids no deploy"


def test_an_evaluation_that_cannot_be_kept_says_why(host: Layout, tmp_path: Path) -> None:
    assert "no engine at /none/bin/python" in evaluated(
        host, passed=True, engine={"python": "/none/bin/python", "model": "/m"}
    )
    host.evaluations.write_text("a file where a folder belongs")
    assert "Not a directory" in evaluated(host, passed=True, engine=environment(tmp_path / "engine"))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n", "535.129.03"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC 12.2.0\n",
            "580.95.05",
        ),
        ("nothing of the kind", None),
    ],
)
def test_the_driver_is_the_one_that_the_kernel_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, version: str | None
) -> None:
    monkeypatch.setattr(stack, "_DRIVER", tmp_path / "module")
    monkeypatch.setattr(stack, "_DRIVER_IN_A_CONTAINER", tmp_path / "proc")
    assert stack.driver() is None
    (tmp_path / "proc").write_text(text)
    assert stack.driver() == version
    (tmp_path / "module").write_text("590.12.01\n")
    assert stack.driver() == "590.12.01"
