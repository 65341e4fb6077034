"""A promoted engine under the guard, without a host: what it writes and does is said by a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ddops.agent import guard
from ddops.agent.journal import Entry
from ddops.agent.layout import Layout

UNIT, INVOCATION = "lab-0001.service", "a" * 32
POLICY = {"on_fault": "restart", "on_repeat": "page", "repeat_within": 1800, "cap": 5, "ask_every": 60}
RELEASE = SimpleNamespace(
    number=1, unit=UNIT, manifest={"watch": POLICY}, deadlines={"load_cap": 3600, "answer": 1},
    gates={"smoke": {"questions": [{"prompt": "q"}], "max_tokens": 3}},
)  # fmt: skip


class World:
    """An engine under the guard: its journal, its processes, and what was filed and told."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout("lab", folder / "state", folder / "run")
        self.lines: list[Entry] = []
        self.now = 1_800_000_000.0
        self.schedulers = frozenset({11, 12})
        self.filed: list[str] = []
        self.told: list[str] = []
        self.refuses: Exception | None = None
        self.news = ("", "", 0.0)
        self.pipe = os.pipe()
        self.unit: dict[str, Any] = {
            "load": "loaded", "active": "active", "result": "success", "main_pid": 100, "invocation": INVOCATION,
            "cgroup": "/x", "fragment": "", "needs_reload": False, "exit_code": "", "exit_status": "0", "drop_ins": (),
        }  # fmt: skip
        for path in (self.layout.root, self.layout.run):
            path.mkdir(parents=True)
        self.guard = guard.Guard(self.layout, lambda _: None)

    def prints(self, line: str, **more: Any) -> None:
        fields = {"pid": 100, "identifier": "python3", "transport": "stdout", "unit": UNIT, "invocation": INVOCATION}
        entry = {"message": line, "time_us": int(self.now * 1e6), "cursor": str(len(self.lines)), **fields, **more}
        self.lines.append(Entry(**entry))

    def systemd_says(self, line: str) -> None:
        self.prints(line, identifier="systemd", transport="journal", unit="init.scope", about=UNIT, invocation="")

    def ends(self) -> None:
        os.write(self.pipe[1], b"!")
        self.unit.update(active="failed", result="signal", main_pid=0, exit_code="killed", exit_status="9")

    def looks(self) -> None:
        self.guard._look_at = 0.0
        self.guard.look()

    def file(self, _: Layout, request: dict[str, Any]) -> int:
        if self.refuses:
            raise self.refuses
        self.filed.append(request["kind"])
        return 1

    def begins_anew(self) -> None:
        """Another life of the supervisor."""
        self.guard = guard.Guard(self.layout, lambda _: None)


class Reader:
    """Stands for ``Journal``."""

    world: World

    def __init__(self, _: list[str], last: int | None = None, after: str = "") -> None:
        self.fd = os.eventfd(0)
        self._at = int(after) + 1 if after else 0

    def close(self) -> None:
        os.close(self.fd)

    def entries(self) -> Iterator[Entry]:
        while self._at < len(self.world.lines):
            self._at += 1
            yield self.world.lines[self._at - 1]


class Questions:
    """Stands for the eye's own, which are asked in a thread."""

    world: World

    def __init__(self, *_: Any, loads: bool) -> None:
        self.loads = loads

    def news(self) -> tuple[str, str, float]:
        news, self.world.news = self.world.news, ("", "", 0.0)
        return news

    @property
    def owed(self) -> bool:
        return not self.loads

    def has_loaded(self) -> None:
        self.loads = False

    def ask_now(self) -> None: ...

    def end(self) -> None: ...
