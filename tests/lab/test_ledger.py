"""The ledger from outside: SQLite on the host, what goes stale, what a lost database and a lost host leave."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .service_host import STATE, ServiceHost, wait_for

pytestmark = pytest.mark.lab

DATABASE = f"{STATE}/ledger.db"
ASK = "import sqlite3, sys, json; print(json.dumps(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall()))"


def rows(host: ServiceHost, query: str) -> list[list[Any]]:
    """Asks the host's database with the host's own SQLite."""
    found: list[list[Any]] = json.loads(host.on("python3", "-c", ASK, DATABASE, query))
    return found


def load_driver(host: ServiceHost, version: str) -> None:
    """Makes the host look as if its kernel had loaded this version of NVIDIA's driver."""
    module = "/sys/module/nvidia"
    host.on("sh", "-c", f"mount -o remount,rw /sys && mkdir -p {module} && echo {version} > {module}/version")


def test_every_verdict_is_on_the_host_with_its_stack_and_goes_stale(served: ServiceHost) -> None:
    load_driver(served, "580.95.05")
    served.script(w13={"fault_after": 20})
    client = served.start_deploy(12)
    wait_for(lambda: served.began("load", 3), 20, "the trial loads")
    client.kill()  # the host records alone
    wait_for(lambda: served.outcome(3), 30, "the trial has ended")
    ended = "SELECT id, verdict, release, budget, driver FROM entries WHERE kind = 'deploy' ORDER BY seq"
    wait_for(lambda: len(rows(served, ended)) == 2, 10, "both deploys are in the database")
    assert rows(served, ended) == [
        ["operation-000002", "good", 1, 8, None],
        ["operation-000003", "bad", 2, 12, "580.95.05"],
    ]
    [[sglang, overlay, environment, model]] = rows(
        served, "SELECT DISTINCT sglang, overlay, environment, model FROM entries WHERE kind = 'deploy'"
    )
    stack = json.loads(served.file(f"{STATE}/releases/0002/stack.json") or "")
    assert {"sglang": sglang, "environment": environment, "model": model, "drafter": "", "driver": "580.95.05"} == stack
    assert overlay == json.loads(served.file(f"{STATE}/releases/0002/manifest.json") or "")["overlay"]
    gates = "SELECT gate, passed, accept_length FROM verdicts WHERE entry = 2 ORDER BY rowid"
    assert rows(served, gates) == [
        ["ready", 1, None],
        ["smoke", 1, None],
        ["lossless", 1, None],
        ["acceptance", 1, 2],
        ["throughput", 1, None],
    ]
    [[speed]] = rows(served, "SELECT tok_s FROM verdicts WHERE entry = 2 AND gate = 'throughput'")
    assert 0 < speed < 1000, "the engine sleeps two milliseconds after every two tokens"
    assert served.on("stat", "-c", "%a %U", DATABASE).split() == ["600", "root"]

    assert served.ddops("eval", "smoke").code == 0
    evaluated = "SELECT verdict, release, budget, driver FROM entries WHERE kind = 'eval'"
    assert rows(served, evaluated) == [["passed", 1, 8, "580.95.05"]]

    refused = served.deploy(12)
    assert (refused.code, refused.document["outcome"]) == (5, "refused"), "bad on this very stack"
    load_driver(served, "590.12.01")
    changed = "driver 580.95.05 is now 590.12.01"
    found = served.ddops("evidence", "--budget", "12").document["evidence"]
    assert [(row["outcome"], row["stale"]) for row in found] == [("bad", [changed])]
    [known] = served.ddops("diff", "lab", "--budget", "12").document["plan"]["evidence"]
    assert (known["outcome"], known["other"], known["stale"]) == ("bad", ["driver"], [changed])
    served.script(w13={})
    assert served.deploy(12).code == 0, "stale evidence forbids nothing"
    assert served.pointer("known-good") == 4


def test_a_lost_database_stops_nothing_and_a_lost_host_leaves_the_copy(served: ServiceHost, tmp_path: Path) -> None:
    before = rows(served, "SELECT id, verdict, brief FROM entries ORDER BY id")
    assert [row[:2] for row in before] == [["operation-000001", None], ["operation-000002", "good"]]
    [copy] = (tmp_path / "data").rglob("*.db")
    with sqlite3.connect(copy) as sql:
        assert [list(row) for row in sql.execute("SELECT id, verdict, brief FROM entries ORDER BY id")] == before

    served.write(DATABASE, "no database" * 1000)
    ran = served.ddops("evidence")
    assert ran.code == 0
    assert "it was damaged and was made anew" in ran.stderr
    assert [(row["outcome"], row["budget"]) for row in ran.document["evidence"]] == [("good", 8)]
    assert rows(served, "SELECT id, verdict, brief FROM entries ORDER BY id") == before
    assert (served.file(f"{DATABASE}.damaged") or "").startswith("no database")
    served.on("rm", f"{DATABASE}.damaged")

    served.on("sh", "-c", f"rm {DATABASE} && mkdir {DATABASE}")  # nothing can be written there
    ran = served.deploy(12)
    assert (ran.code, ran.document["outcome"]) == (0, "promoted")
    assert served.ddops("rollback", "--to", "1").code == 0
    assert served.ddops("status").code == 0
    history = served.ddops("history")
    assert "the host's ledger" in history.stderr
    done = ["adopted", "promoted", "promoted", "rolled-back"]
    assert [operation["outcome"] for operation in history.document["operations"]] == done
    served.on("rmdir", DATABASE)
    assert served.ddops("evidence").document["warnings"] == []
    assert len(rows(served, "SELECT id FROM entries")) == 4

    served.on("sh", "-c", "systemctl stop ssh.socket; systemctl stop ssh.service; systemctl mask --runtime ssh.socket")
    lost = served.ddops("evidence", "--budget", "12")
    assert (lost.code, lost.document["source"]) == (6, "copy")
    assert "cannot be reached" in lost.stderr or "cannot connect" in lost.stderr
    assert [(row["outcome"], row["release"], row["stale"]) for row in lost.document["evidence"]] == [("good", 2, [])]
    offline = served.ddops("history", "--offline")
    assert (offline.code, [o["outcome"] for o in offline.document["operations"]]) == (0, done)
    table = subprocess.run(
        served.argv("evidence", "--offline"), env=served.environment, capture_output=True, text=True, check=True
    )
    assert "copy: as stub told it" in table.stderr
    assert "    12 off    NGRAM      good" in table.stdout
