"""Which processes are SGLang's schedulers: real ones, told by their titles and parents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from ddops.agent import processes

TITLE = "sglang::scheduler_TP0"
# says the pids of itself and of its child, and waits to be killed
FORKS = """
import os, sys, time
child = os.fork()
if child:
    print(os.getpid(), child, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def forked() -> Iterator[tuple[int, int]]:
    with subprocess.Popen(
        [sys.executable, "-c", FORKS, TITLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        scheduler, child = map(int, process.stdout.readline().split())
        yield scheduler, child


def test_what_a_scheduler_forks_bears_its_title_and_is_none(
    forked: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, child = forked
    monkeypatch.setattr(processes, "pids", lambda _: {scheduler, child, 1})
    assert processes.schedulers("/x") == {scheduler}


def test_one_whose_parent_is_no_scheduler_is_one(forked: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    _, child = forked
    monkeypatch.setattr(processes, "pids", lambda _: {child, 1})
    assert processes.schedulers("/x") == {child}
