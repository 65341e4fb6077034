"""The watch after promotion, over its own lives: what it has seen is kept, and what it could not act on comes again."""

from __future__ import annotations

import errno
import itertools
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ddops.agent import (
    eye,
    incidents,
    notices,
    processes,
    releases,
    requests,
    seen,
    service,
    supervisor,
    systemd,
)
from ddops.agent.errors import AgentError, GateFailed, Locked
from ddops.agent.seen import Seen
from ddops.lab.waiting import until
from tests.unit.guarded import INVOCATION, RELEASE, UNIT, Questions, Reader, World

DAY_S = 86400


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = Reader.world = Questions.world = World(tmp_path)
    monkeypatch.setattr(eye, "Journal", Reader)
    monkeypatch.setattr(eye, "_Questions", Questions)
    monkeypatch.setattr(eye, "_LAST_WORDS_S", 0.01)
    monkeypatch.setattr(time, "time_ns", lambda: int(made.now * 1e9))
    monkeypatch.setattr(systemd, "show", lambda name: systemd.Unit(name=name, **made.unit))
    monkeypatch.setattr(processes, "schedulers", lambda _: made.schedulers)
    monkeypatch.setattr(processes, "pids", lambda _: {1} if made.unit["main_pid"] else set())
    monkeypatch.setattr(processes, "open_process", lambda pid: os.dup(made.pipe[0]) if pid else None)
    monkeypatch.setattr(releases, "pointed_if_whole", lambda *_: RELEASE)
    monkeypatch.setattr(requests, "file", made.file)
    monkeypatch.setattr(notices, "send", lambda _: None)
    monkeypatch.setattr(notices, "leave", lambda _, text, **__: made.told.append(text))
    return made


@pytest.mark.parametrize(
    "harmless",
    ["OSError: [Errno 28] No space left on device: '/tmp/x'", 'INFO: 192.0.2.7:1 - "POST /generate HTTP/1.1" 500'],
)
def test_what_was_paged_about_long_ago_hides_nothing(world: World, harmless: str) -> None:
    world.prints("up")
    for _ in range(30):
        world.prints(harmless)
    world.looks()
    assert world.filed == []
    world.now += 3 * DAY_S
    world.prints("fine")
    world.looks()
    world.schedulers = frozenset({11})
    world.looks()
    assert world.filed == ["restart"]
    assert incidents.of(world.layout)[-1]["rule"] == "scheduler-gone"


def test_a_line_days_after_a_signal_is_another_incident(world: World) -> None:
    world.prints("up")
    world.looks()
    world.news = ("no-decode", "it hung for a while", 0.0)
    world.looks()
    world.now += 3 * DAY_S
    world.prints("RuntimeError: CUDA error: an illegal memory access was encountered")
    world.looks()
    assert [i["rule"] for i in incidents.of(world.layout)] == ["no-decode", "illegal-memory-access"]


@pytest.mark.parametrize("how", ["an operation that was refused", "another life of the supervisor"])
def test_an_engine_that_was_stopped_by_hand_is_not_started_by_a_later_watch(world: World, how: str) -> None:
    world.prints("up")
    world.looks()
    world.systemd_says(f"Stopping {UNIT} - engine...")
    world.ends()
    world.systemd_says(f"{UNIT}: Main process exited, code=killed, status=9/KILL")
    world.looks()
    world.looks()
    if how.startswith("an operation"):
        world.guard.let_go()
    else:
        world.begins_anew()
    world.looks()
    assert (world.filed, world.told) == ([], [])


def test_a_scheduler_that_bears_its_title_late_is_known_all_the_same(world: World) -> None:
    world.schedulers = frozenset()
    world.prints("The server is fired up and ready to roll!")
    world.looks()
    world.schedulers = frozenset({11, 12})
    world.looks()
    world.schedulers = frozenset({11})
    world.looks()
    assert world.filed == ["restart"]


def test_a_stop_that_is_not_read_yet_explains_schedulers_that_are_gone(world: World) -> None:
    world.prints("up")
    world.looks()
    world.systemd_says(f"Stopping {UNIT} - engine...")
    world.schedulers = frozenset()
    world.looks()
    assert (world.filed, world.told) == ([], [])


@pytest.mark.parametrize("after", ["the lock is free", "an operation that was refused"])
def test_what_meets_a_lock_is_acted_on_later(world: World, after: str) -> None:
    """A release is being stored, say; told was that the engine is restarted."""
    world.prints("up")
    world.looks()
    world.refuses = Locked("locked", "somebody stores a release", "")
    world.prints("RuntimeError: CUDA error: an illegal memory access was encountered")
    world.schedulers = frozenset({11})
    world.looks()
    world.looks()
    assert (world.filed, world.told) == ([], [])
    world.refuses = None
    if after.startswith("an operation"):
        world.guard.let_go()
    world.looks()
    assert world.filed == ["restart"]
    assert len(world.told) == 1
    world.looks()
    assert world.filed == ["restart"]


def test_what_could_not_be_filed_is_found_again(world: World) -> None:
    world.prints("up")
    world.looks()
    world.refuses = OSError(errno.EROFS, "read-only")
    world.prints("RuntimeError: CUDA error: an illegal memory access was encountered")
    world.looks()
    world.refuses = None
    world.looks()
    assert world.filed == ["restart"]
    assert [i["rule"] for i in incidents.of(world.layout)] == ["illegal-memory-access"]


def test_run_that_takes_nothing_does_not_end_the_supervisor(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.prints("up")
    world.looks()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Seen, "store", full)
    world.guard.let_go()  # an operation begins
    world.prints("RuntimeError: CUDA error: an illegal memory access was encountered")
    world.looks()
    world.looks()
    assert world.filed == ["restart"]


def test_a_signal_that_was_told_is_not_told_again_after_a_look_that_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.prints("up")
    world.looks()
    (world.layout.root / "paused").write_text('{"by": "ops", "reason": "", "since": "", "until": null}')
    world.schedulers = frozenset({11})
    world.looks()
    assert len(world.told) == 1
    show = systemd.show

    def fails(_: str) -> Any:
        raise AgentError("systemctl failed", "no memory")

    monkeypatch.setattr(systemd, "show", fails)
    world.looks()
    monkeypatch.setattr(systemd, "show", show)
    world.looks()
    world.looks()
    assert len(world.told) == 1


def test_an_end_that_is_seen_late_is_part_of_its_cause(world: World) -> None:
    world.prints("up")
    world.looks()
    world.prints("RuntimeError: CUDA error: an illegal memory access was encountered")
    world.ends()
    world.now += 1200
    world.begins_anew()
    world.looks()
    world.looks()
    assert (world.filed, len(world.told)) == (["restart"], 1)


def test_what_met_a_lock_is_told_where_the_engine_was_started_anew_meanwhile(world: World) -> None:
    world.prints("up")
    world.looks()
    world.refuses = Locked("locked", "somebody stores a release", "")
    world.prints("[2026-11-29 12:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):")
    world.prints("RuntimeError: CUDA error: an illegal memory access was encountered")
    world.looks()
    world.guard.let_go()
    world.refuses = None
    world.unit["invocation"] = "b" * 32
    world.lines.clear()
    world.looks()
    assert world.filed == []
    [record] = incidents.of(world.layout)
    assert (record["rule"], record["action"], record["invocation"]) == ("illegal-memory-access", "page", INVOCATION)
    assert "somebody else had the service in hand" in world.told[0]
    world.looks()
    assert len(world.told) == 1


def test_a_harmless_line_that_comes_again_and_again_explains_no_end(world: World) -> None:
    world.prints("up")
    world.looks()
    for _ in range(30):
        world.prints("OSError: [Errno 28] No space left on device: '/tmp/x'")
        world.looks()
        world.now += 600
    world.schedulers = frozenset({11})
    world.looks()
    assert world.filed == ["restart"]


def test_an_end_is_another_matter_than_failed_requests_before_it(world: World) -> None:
    world.prints("up")
    for _ in range(30):
        world.prints('INFO: 192.0.2.7:1 - "POST /generate HTTP/1.1" 500')
    world.looks()
    assert (world.filed, len(world.told)) == ([], 1)
    world.now += 300
    world.ends()
    world.looks()
    assert world.filed == ["restart"]
    assert incidents.of(world.layout)[-1]["rule"] == "engine-ended"


@pytest.mark.parametrize(
    ("kept", "owed"),
    [(Seen(INVOCATION), False), (Seen(INVOCATION, served=True), True), (Seen("another", served=True), False)],
)
def test_an_engine_that_has_served_owes_an_answer_to_every_later_watch(world: World, kept: Seen, owed: bool) -> None:
    kept.store(world.layout)
    world.prints("Load weight begin")
    world.looks()
    assert world.guard._eye
    questions: Any = world.guard._eye._questions
    assert questions.loads is not owed
    world.prints("The server is fired up and ready to roll!")
    world.looks()
    assert not questions.loads
    world.guard.let_go()
    assert seen.seen(world.layout, INVOCATION).served


@pytest.mark.parametrize("loads", [True, False])
def test_wrong_answers_count_at_once_unless_the_engine_loads(loads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = itertools.count()

    def wrong(*_: Any, **__: Any) -> None:
        next(asked)
        raise GateFailed("a wrong answer to 'q'", "'!!!!'")

    monkeypatch.setattr(eye, "ask", wrong)
    monkeypatch.setattr(service, "engine_of", lambda _: None)
    questions = eye._Questions(RELEASE, 0.001, loads=loads)  # type: ignore[arg-type]
    try:
        assert until(lambda: next(asked) > 10, 60)
        if loads:
            assert questions.news()[0] == ""
            questions.has_loaded()
        assert until(lambda: questions.news()[0] == "wrong-answer", 60)
    finally:
        questions.end()


@pytest.mark.parametrize("kept", ["{", '{"invocation": "' + INVOCATION + '", "of another ddops": 1}', "[]"])
def test_what_was_kept_and_cannot_be_read_is_nothing(world: World, kept: str) -> None:
    world.layout.seen.write_text(kept)
    assert seen.seen(world.layout, INVOCATION) == Seen(INVOCATION)


@pytest.mark.parametrize(
    ("by", "outcome", "told"),
    [
        (requests.SUPERVISOR, "refused", True),
        (requests.SUPERVISOR, "restarted", False),
        ("ops@laptop", "refused", False),
        ("ops@laptop", "rollback-failed", True),
    ],
)
def test_a_restart_that_is_refused_is_told(world: World, by: str, outcome: str, told: bool) -> None:
    """Before it, somebody was told that the engine is restarted."""
    reason = {"what": "release 0 is not what it was"}
    supervisor._notify(
        world.layout, {"kind": "restart", "by": by, "outcome": outcome, "reason": reason}, expected=False
    )
    assert bool(world.told) is told
