"""The agent's reader and the rules on a real journald: floods, cut lines, restarts, rotation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddops import resources
from ddops.lab.lab import Lab
from ddops.lab.options import Bind, HostOptions

from .service_host import wait_for

pytestmark = pytest.mark.lab

IMA = "CUDA error: an illegal memory access was encountered"
# reads a unit from a cursor on until a line says where to stop; tells what it saw
READER = """
import json, select, sys
sys.path.insert(0, "/opt/reader/agent.pyz")
from agent.faults import Detector, Scope
from agent.journal import Journal
unit, after, last = sys.argv[1:]
detector, lines, cursor = Detector("trial", Scope(frozenset({unit}))), [], after
with Journal(["_SYSTEMD_UNIT=" + unit], after=after) as journal:
    while not (lines and lines[-1] == last):
        for entry in journal.entries():
            detector.feed(entry)
            lines.append(entry.message[-60:])
            cursor = entry.cursor
            if lines[-1] == last:
                break
        else:
            select.select([journal.fd], [], [], 1)
    gap = journal.gap
print(json.dumps({"gap": gap, "cursor": cursor, "count": len(lines), "lines": lines[:300],
                  "incidents": [i.record() for i in detector.incidents]}))
"""
WRITER = """
import pathlib, sys, time
def numbered(first, end):
    for number in range(first, end):
        print("line", number, flush=True)
what = sys.argv[1]
if what == "flood":
    for number in range(100000):
        print(f"Index.cu:92: operator(): block: [{number},0,0], thread: [{number % 128},0,0] Assertion `i < n` failed.")
    print("CUDA error: an illegal memory access was encountered")
elif what == "cut":
    fault = "CUDA error: an illegal memory access was encountered"
    print("[TP0] scheduler.cur_batch.reqs=[" + "1" * (49152 - 33 - 24) + fault, flush=True)
    print("x" + "\\u00e9" * 24600 + " " + fault, flush=True)
    print("Receive: obj=GenerateReqInput(text='" + "1" * (49152 - 36 - 24) + fault + "')", flush=True)
elif what == "steps":
    numbered(0, 100)
    while not pathlib.Path("/run/go-on").exists():
        time.sleep(0.02)
    numbered(100, 200)
    print("CUDA error: an illegal memory access was encountered", flush=True)
print("end", flush=True)
"""


class JournalHost:
    """A host on which units write and the agent reads."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name = lab, name

    def on(self, *command: str) -> str:
        done = self.lab.exec(self.name, *command, seconds=100)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return str(done.stdout)

    def write(self, what: str) -> str:
        unit = f"{what}.service"
        self.on("systemd-run", f"--unit={unit}", "-p", "LogRateLimitIntervalSec=1s",
                "-p", "LogRateLimitBurst=100000000", "-p", "Type=exec",
                "/usr/bin/python3", "/opt/reader/writer.py", what)  # fmt: skip
        return unit

    def read(self, unit: str, after: str = "", last: str = "end") -> Any:
        return json.loads(self.on("python3", "/opt/reader/reader.py", unit, after, last))

    def raw(self, unit: str) -> list[dict[str, Any]]:
        output = self.on("journalctl", "_SYSTEMD_UNIT=" + unit, "-o", "json", "--all", "--no-pager")
        return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="module")
def host(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JournalHost]:
    folder: Path = tmp_path_factory.mktemp("reader")
    (folder / "agent.pyz").write_bytes(resources.agent())
    (folder / "reader.py").write_text(READER)
    (folder / "writer.py").write_text(WRITER)
    folder.chmod(0o755)
    lab.up("journal", options=HostOptions(binds=(Bind(folder, "/opt/reader"),)))
    yield JournalHost(lab, "journal")
    lab.down("journal")


def test_no_line_is_lost_behind_100_000_asserts(host: JournalHost) -> None:
    seen = host.read(host.write("flood"))
    assert seen["count"] == 100_002
    (incident,) = seen["incidents"]
    assert incident["class"] == "cuda_device_assert"
    assert incident["count"] == 100_001, "each line once, the illegal access among them"


def test_a_fault_that_journald_cut_is_found_and_a_quote_that_it_cut_is_none(host: JournalHost) -> None:
    unit = host.write("cut")
    seen = host.read(unit)
    parts = [entry for entry in host.raw(unit) if entry.get("_LINE_BREAK") == "line-max"]
    assert len(parts) == 3, "journald did cut"
    assert not any(IMA in str(entry["MESSAGE"]) for entry in parts)
    (incident,) = seen["incidents"]
    assert incident["class"] == "cuda_illegal_memory_access"
    assert incident["count"] == 2
    assert all(IMA in line for line in incident["lines"])


def test_reading_goes_on_behind_its_cursor_though_journald_restarted(host: JournalHost) -> None:
    unit = host.write("steps")
    first = host.read(unit, last="line 99")
    host.on("systemctl", "restart", "systemd-journald")
    host.on("journalctl", "--rotate")
    host.on("touch", "/run/go-on")
    second = host.read(unit, first["cursor"])
    assert first["lines"] + second["lines"] == [*(f"line {n}" for n in range(200)), IMA, "end"]
    assert not second["gap"]
    assert [incident["rule"] for incident in second["incidents"]] == ["illegal-memory-access"]

    # what a reader missed for ever is told, never passed over
    wait_for(lambda: "inactive" in host.lab.exec(host.name, "systemctl", "is-active", unit).stdout, 10, "it ended")
    host.on("journalctl", "--rotate", "--vacuum-size=1")
    host.on("systemd-run", "--wait", "--unit=steps", "/usr/bin/python3", "/opt/reader/writer.py", "nothing")
    third = host.read(unit, first["cursor"])
    assert third["gap"]
    assert third["lines"] == ["end"]
