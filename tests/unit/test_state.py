"""State that an earlier ddops left on a host is read, whatever has changed since; a newer one's is left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ddops.agent import __main__ as entry
from ddops.agent import (
    brakes,
    doctor,
    entries,
    incidents,
    layout,
    releases,
    requests,
    serve,
    state,
    steplog,
    supervisor,
    systemd,
)
from ddops.agent.errors import TooNew
from ddops.agent.layout import Layout, layout_of

STATES = Path(__file__).parents[1] / "states"
WITHOUT_STATE = {"services", "site", "doctor", "overlay", "pins", "gpu_use"}


@pytest.fixture(params=sorted(path.name for path in STATES.iterdir()))
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Layout:
    """A service as a ddops of that format left it: adopted, budget 8 promoted, 12 rolled back, an incident."""
    shutil.copytree(STATES / request.param / "var/lib/ddops", tmp_path / "state")
    return layout_of("lab", tmp_path / "state", tmp_path / "run")


def test_there_is_a_recorded_state_of_each_format() -> None:
    assert [path.name for path in sorted(STATES.iterdir())] == [str(n + 1) for n in range(state.FORMAT)]


def test_recorded_state_is_read(left: Layout) -> None:
    state.must_be_readable(left)
    known_good = releases.pointed(left, left.known_good)
    assert known_good is not None
    assert known_good == releases.pointed(left, left.live)
    assert (known_good.number, known_good.unit, known_good.port) == (1, "lab-0001.service", 31001)
    assert releases.problems(known_good) == []
    assert known_good.front == {"port": 8000}
    assert known_good.summary()["stack"]["sglang"] == "0.5.16"
    assert (releases.numbers(left), releases.next_number(left)) == ([0, 1, 2], 3)
    assert releases.load(left, 0).adopted

    told = [(o["kind"], o["outcome"]) for o in steplog.outcomes(left)]
    assert told == [
        ("adopt", "adopted"), ("deploy", "promoted"), ("deploy", "rolled-back"), ("rollback", "unchanged"),
        ("restart", "restarted"),
    ]  # fmt: skip
    assert [s["step"] for s in steplog.outcomes(left)[1]["steps"]][:3] == ["preflight", "drain", "stop"]
    assert steplog.under_way(left) is None
    assert next(e["event"] for e in steplog.read(steplog.steps_file(left, 4))) == "taken-up"
    known = {(e["budget"], e["verdict"]) for e in entries.from_files(left) if e["kind"] == "deploy"}
    assert known == {(8, "good"), (12, "bad")}
    assert [(i["rule"], i["action"]) for i in incidents.of(left)] == [("unit-killed", "restart")]
    assert brakes.policy_of(known_good).ask_every > 0
    gates = known_good.gates
    assert gates["smoke"]["questions"][0]["expect"]
    assert {"stop", "gates", "answer", "load_cap", "load_silence"} <= set(known_good.deadlines)


def test_an_unfinished_operation_of_recorded_state_is_found(left: Layout) -> None:
    steplog.outcome_file(left, 5).unlink()
    current = steplog.under_way(left)
    assert current is not None
    assert (current["kind"], steplog.at_step(left, current)) == ("restart", "return")


def test_state_of_a_newer_ddops_is_left_alone(
    left: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every call but those that read no state, and every way in on the host itself."""
    newer = {"format": state.FORMAT + 1, "ddops": "9.1.0"}
    left.format.write_text(json.dumps(newer))
    before = sorted((str(p), p.read_bytes()) for p in left.root.rglob("*") if p.is_file())
    monkeypatch.setattr(layout, "STATE_ROOT", left.root.parent)
    for module in (serve, entry, doctor):
        monkeypatch.setattr(module, "layout_of", lambda name: layout_of(name, left.root.parent, left.run.parent))
    monkeypatch.setattr(systemd, "must_run", lambda: None)
    monkeypatch.setattr(requests, "rollback", lambda *_: pytest.fail("asked for"))
    monkeypatch.setattr(supervisor, "supervise", lambda _: pytest.fail("at work"))
    for name in sorted(set(serve.CALLS) - WITHOUT_STATE):
        args: dict[str, Any] = dict.fromkeys(
            ("unit", "port", "spec", "request", "operation", "after", "to", "by", "release", "last", "follow", "copy",
             "about", "reason", "seconds", "suite", "settings", "notify", "overlay_of", "files")
        )  # fmt: skip
        with pytest.raises(TooNew) as refused:
            list(serve.CALLS[name]({"service": "lab", "manifest": "{}", **args}, b""))
        assert "9.1.0" in refused.value.what
        assert "9.1.0" in refused.value.hint, "the next step"
    for words in (["supervise"], ["operate"], ["ledger"], ["notify"], ["rollback"]):
        assert entry.main([words[0], "lab"]) == 12
        assert "9.1.0" in capsys.readouterr().err
    assert [f["state"] for f in doctor._kept(left)] == ["bad"]
    assert before == sorted((str(p), p.read_bytes()) for p in left.root.rglob("*") if p.is_file())


def test_a_release_of_a_newer_ddops_is_not_run(left: Layout) -> None:
    path = left.release_dir(1) / releases.MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": state.FORMAT + 1, "ddops": "9.1.0"}))
    with pytest.raises(TooNew, match=r"release 1 was written by a newer ddops, 9\.1\.0"):
        releases.load(left, 1)


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"format": "x"}', '{"format": null}'])
def test_a_damaged_mark_stands_in_nobodys_way_and_is_made_anew(left: Layout, damage: str) -> None:
    left.format.write_text(damage)
    state.must_be_readable(left)
    state.mark(left)
    assert json.loads(left.format.read_text())["format"] == state.FORMAT
