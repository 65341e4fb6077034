"""What must hold on a host at every moment of a history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ddops.agent import durable, steplog, systemd

from .engines import Process

if TYPE_CHECKING:
    from .host import Host

PORTS = 31000  # a release's own port is so much more than its number


class Invariants:
    """Looks at a host at its moments and keeps what was wrong."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.violations: list[str] = []

    def looks(self, what: str) -> None:
        """What must hold at every moment."""
        running = {p.unit for p in self._host.units.processes}
        if len(running) > 1:
            self.wrong(f"two engines at once, {what}: {sorted(running)}")
        pointer = durable.read_json(self._host.layout.known_good)
        if pointer is None:
            return
        if not (self._host.layout.release_dir(pointer["release"]) / "manifest.json").exists():
            self.wrong(f"known-good {pointer['release']} is gone, {what}")
        boots = systemd.boots(self._host.layout)
        if boots is None or not (self._host.etc / boots).is_file():
            self.wrong(f"the alias boots {boots}, which is not there, {what}")

    def starts(self, process: Process) -> None:
        """An engine is started: a trial never in another boot than its own, unless it is what boots."""
        newest = max(self._host.layout.operations.glob("*.request.json"), default=None)
        asked = json.loads(newest.read_text()) if newest else {"kind": ""}
        trial = asked["kind"] == "deploy" and asked["release"] == process.release
        if trial and asked["boot_id"] != f"boot-{self._host.boot}" and self._host.boots() != process.unit:
            self.wrong(f"{process.unit} is tried again after a power cut")

    def front_opens(self, target: str) -> None:
        """The public port now leads to a release: only to one that has passed."""
        passed = self.passed()
        if target and int(target) - PORTS not in passed:
            self.wrong(f"users are sent to {target}, passed have {sorted(passed)}")

    def passed(self) -> set[int]:
        passed = {int((durable.read_json(self._host.layout.known_good) or {"release": 0})["release"])}
        newest = max(self._host.layout.operations.glob("*.request.json"), default=None)
        if newest:
            asked = json.loads(newest.read_text())
            steps = list(steplog.read(steplog.steps_file(self._host.layout, asked["operation"])))
            done = {e["step"] for e in steps if e["event"] == "step-done"}
            if asked["kind"] == "deploy" and {"ready", "smoke", "acceptance", "throughput"} <= done:
                passed.add(asked["release"])
            # what known-good was when the operation began
            passed |= {e["release"] for e in steps if e["event"] == "way-back" and e["release"] is not None}
            if asked["kind"] in ("rollback", "restart") and asked.get("to") is not None and "return" in done:
                passed.add(asked["to"])
        return passed

    def wrong(self, what: str) -> None:
        self.violations.append(what)
