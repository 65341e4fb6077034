"""Notices are delivered as often as they must, also where the disk takes no record of that."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ddops.agent import durable, notices
from ddops.agent.layout import Layout


@pytest.mark.parametrize(("taken", "times"), [(True, 1), (False, 6)])
def test_a_full_disk_makes_nobody_be_told_without_end(
    taken: bool, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout("lab", tmp_path / "state", tmp_path / "run")
    layout.root.mkdir()
    told = tmp_path / "told"
    command = ["sh", "-c", f"echo told >> {told}; exit {int(not taken)}"]
    notices.send_to(layout, {"command": command, "webhook_url_file": None})
    monkeypatch.setattr(notices, "send", lambda _: None)
    notices.leave(layout, "the engine is restarted")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable, "write_json", full)
    monkeypatch.setattr(notices, "_PAUSES_S", (0.0,) * 5)
    monkeypatch.setattr(notices, "_LOOK_S", 0.001)
    notices.deliver(layout)
    assert told.read_text().splitlines() == ["told"] * times
    assert notices.waiting(layout) == []


def test_a_notice_that_cannot_be_filed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout("lab", tmp_path / "state", tmp_path / "run")
    layout.root.mkdir()
    notices.send_to(layout, {"command": ["true"], "webhook_url_file": None})
    monkeypatch.setattr(notices, "send", lambda _: None)
    notices.leave(layout, "one")
    notices.leave(layout, "two")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable, "make_directory", full)
    notices.deliver(layout)
    assert notices.waiting(layout) == []
