"""The step log survives what power cuts do to files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ddops.agent import deploy, durable, steplog
from ddops.agent.errors import AgentError, GateFailed
from ddops.agent.layout import Layout, layout_of
from ddops.agent.steplog import StepLog


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = layout_of("lab", tmp_path / "state", tmp_path / "run")
    durable.make_directory(made.operations, 0o700)
    return made


def test_a_step_is_written_before_it_is_done(layout: Layout) -> None:
    log = StepLog(layout, 1)
    with log.step("stop"):
        assert [e["event"] for e in steplog.read(steplog.steps_file(layout, 1))] == ["step"]
        assert log.begun("stop")
        assert log.done("stop") is None
    done = log.done("stop")
    assert done is not None
    assert done["seconds"] >= 0


def test_a_step_that_fails_is_written_with_its_reason(layout: Layout) -> None:
    log = StepLog(layout, 1)
    with pytest.raises(GateFailed), log.step("smoke"):
        raise GateFailed("wrong", "because")
    failed = log.last("step-failed")
    assert failed is not None
    assert failed["error"] == {"code": "gate-failed", "what": "wrong", "why": "because"}
    assert not log.done("smoke")


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_dropped_and_written_past(layout: Layout, cut: int) -> None:
    first = StepLog(layout, 1)
    first.write("a")
    first.write("b")
    first.close()
    path = steplog.steps_file(layout, 1)
    path.write_bytes(path.read_bytes()[:-cut])
    second = StepLog(layout, 1)
    second.write("c")
    events = list(steplog.read(path))
    assert [e["event"] for e in events][-1] == "c"
    assert [e["n"] for e in events] == list(range(len(events)))


def test_a_follower_goes_on_after_the_last_event_it_has_seen(layout: Layout) -> None:
    log = StepLog(layout, 1)
    for name in "abc":
        log.write(name)
    assert [e["event"] for e in steplog.read(steplog.steps_file(layout, 1), after=0)] == ["b", "c"]


def test_operations_are_numbered_and_end_with_their_outcome(layout: Layout) -> None:
    first = steplog.start(layout, {"kind": "deploy", "by": "me"})
    under_way = steplog.under_way(layout)
    assert under_way is not None
    assert under_way["operation"] == first == 1
    steplog.finish(layout, first, {"outcome": "promoted"})
    assert steplog.under_way(layout) is None
    assert steplog.start(layout, {"kind": "rollback", "by": "me"}) == 2
    assert steplog.outcomes(layout) == [{"outcome": "promoted"}]


def test_a_line_that_a_filling_disk_takes_half_of_is_not_there(layout: Layout) -> None:
    """The next one would be glued to it, and both were lost."""
    log = StepLog(layout, 1)
    log.write("step", step="stop")
    whole = log._file

    class Filling:
        fileno = whole.fileno

        @staticmethod
        def write(data: bytes) -> int:
            return whole.write(data[: len(data) // 2])

    log._file = Filling()  # type: ignore[assignment]
    log.write("step-done", step="stop", seconds=1.0)
    with pytest.raises(OSError, match="No space left"):
        log.write("step", must=True, step="switch")
    log._file = whole
    log.write("step", step="load")
    assert [(e["event"], e["step"]) for e in steplog.read(steplog.steps_file(layout, 1))] == [
        ("step", "stop"), ("step", "load"),
    ]  # fmt: skip
    assert log.done("stop"), "it is known all the same"


@pytest.mark.parametrize(("step", "goes_back"), [("prune", False), ("soak", True)])
def test_a_release_is_not_left_because_an_old_one_could_not_be_removed(
    layout: Layout, step: str, goes_back: bool
) -> None:
    """The supervisor died before the outcome was stored; the next one goes on where it was."""
    log = StepLog(layout, 1)
    with log.step("promote"):
        pass
    with pytest.raises(GateFailed), log.step(step):
        raise GateFailed("wrong", "because")
    operation = SimpleNamespace(log=StepLog(layout, 1), request={}, layout=layout)
    if goes_back:
        with pytest.raises(AgentError, match="wrong"):
            deploy._interrupted(operation, SimpleNamespace())  # type: ignore[arg-type]
    else:
        deploy._interrupted(operation, SimpleNamespace())  # type: ignore[arg-type]
