"""A host in memory below the real agent: its lives, its moments, and what operators bring."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import ssl  # noqa: F401 - the supervisor sees to it that nobody imports it later
import tarfile
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from ddops.agent import __main__, layout, releases, requests, supervisor, systemd

from .boundary import Boundary
from .engines import Behaviour
from .invariants import PORTS, Invariants
from .journals import Lines
from .turns import Died, Idle, PowerCut, Turns
from .units import PUBLIC, Units

ADOPTED = "sglang.service"
_FRONT_UNIT = b"[Unit]\nDescription=front\n"


class Host:
    """One host, with the service ``lab``; everything on it is gone with ``close``."""

    def __init__(self) -> None:
        shm = Path("/dev/shm")  # noqa: S108 - memory: nothing here has to outlive the test
        self._folder = tempfile.TemporaryDirectory(prefix="dd", dir=shm if shm.is_dir() else None)
        self.root = Path(self._folder.name).resolve()
        self.etc, self.run_units = self.root / "etc", self.root / "run/systemd"
        for folder in (self.etc / "multi-user.target.wants", self.run_units, self.root / "var"):
            folder.mkdir(parents=True)
        self.layout = layout.layout_of("lab", self.root / "var", self.root / "run/ddops")
        self.turns = Turns()
        self.journal = Lines(self)
        self.units = Units(self)
        self.behaviours: dict[int, Behaviour] = {}
        self.boot = 1
        self.crossings = 0
        self.plans: list[tuple[int, Callable[[], None]]] = []
        self.disk_full = False
        self.spare = 0  # writes that a full disk still takes
        self.writes_of_a_part = 200
        self.invariants = Invariants(self)
        self.detached = 0
        self.operating = False
        self.deaths = self.cuts = 0
        self._asked = itertools.count(1)
        self._make_engine_folder()
        self._boundary = Boundary(self)

    def close(self) -> None:
        self.turns.bury()
        self._boundary.undo()
        for fd in [self.journal.never, *(p.ended for p in self.units.all)]:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._folder.cleanup()

    # ---- moments

    def crossing(self, what: str) -> None:
        """A moment at which the supervisor may die, and others may act."""
        if self.turns.nested:
            return
        if self.turns.dead:
            raise self.turns.dead
        self.crossings += 1
        self.invariants.looks(what)
        while self.plans and self.plans[0][0] <= self.crossings:
            _, happen = self.plans.pop(0)
            self.turns.nested += 1
            try:
                happen()
            finally:
                self.turns.nested -= 1
        if self.turns.dead:
            raise self.turns.dead

    def boots(self) -> str | None:
        return systemd.boots(self.layout)

    def kill_supervisor(self) -> None:
        self.turns.dead = Died()

    def cut_power(self) -> None:
        self.turns.dead = PowerCut()

    # ---- lives

    def live(self) -> None:
        """Lets supervisors live, one after another, until one has nothing more to do."""
        while True:
            try:
                if self.units.supervisor == "active":
                    supervisor.supervise(self.layout)
                elif self.detached:
                    self.detached = 0
                    __main__._operate(self.layout)
                return
            except Idle:
                return
            except PowerCut:
                self.cuts += 1
                self._restart()
            except Died:
                self.deaths += 1
                self.turns.bury()
            finally:
                self.turns.bury()

    def _restart(self) -> None:
        self.turns.bury()
        self.turns.forget()
        self.units.power_cut()
        for folder in (self.root / "run").iterdir():
            shutil.rmtree(folder)
        self.run_units.mkdir(parents=True)
        self.boot += 1
        self.disk_full = False
        self.turns.advance(20)
        self.units.boots()
        for process in self.units.processes:
            if process.release not in (passed := self.invariants.passed()):
                self.invariants.wrong(f"release {process.release} boots, passed have {sorted(passed)}")

    # ---- what an operator brings

    def _make_engine_folder(self) -> None:
        packages = self.root / "engine/lib/python3.11/site-packages"
        (packages / "sglang-0.5.16.dist-info").mkdir(parents=True)
        (packages / "sglang-0.5.16.dist-info/RECORD").write_text("sglang-0.5.16.dist-info/RECORD,,\n")
        (self.root / "engine/bin").mkdir()
        (self.root / "engine/bin/python").write_text("")
        (self.root / "model").mkdir()
        (self.root / "model/config.json").write_text("{}")

    def spec(self, policy: str = "page") -> dict[str, Any]:
        """Returns what manifests share."""
        questions = [
            {"prompt": f"The capital of {c}?", "expect": a} for c, a in (("France", "Paris"), ("Japan", "Tok"))
        ]
        return {
            "service": "lab", "profile": "lab", "overlay": "o" * 8,
            "gates": {
                "smoke": {"questions": questions, "concurrency": [1, 2], "max_tokens": 4},
                "lossless": {"prompts": ["a", "b"], "tokens": 6, "concurrency": 1, "tolerance": 0.01},
                "acceptance": {"prompts": ["1, 2"], "tokens": 40, "tolerance": 0.2, "min_accept_length": 1.05},
                "throughput": {"prompts": ["1, 2"], "tokens": 40, "repeats": 1, "tolerance": 0.5},
            },
            "deadlines": {"drain": 1, "stop": 3, "load_silence": 6, "load_cap": 20, "gates": 60, "answer": 5},
            "watch": {"on_fault": policy, "on_repeat": "page", "repeat_within": 600, "cap": 3, "ask_every": 15},
        }  # fmt: skip

    def start_by_hand(self) -> None:
        """Starts the unit that is to be adopted, enabled as somebody has made it."""
        (self.etc / ADOPTED).write_text(f"[Service]\nExecStart=/serve release 0 port {PUBLIC}\n")
        (self.etc / "multi-user.target.wants" / ADOPTED).symlink_to(self.etc / ADOPTED)
        systemd.systemctl("start", ADOPTED)
        self.turns.advance(5)

    def file(self, kind: str, by: str, **more: Any) -> int:
        return requests.file(self.layout, {"kind": kind, "by": by, **more})

    def install(self) -> None:
        requests.install_supervisor(self.layout, "[Service]\n", b"agent", {"command": None, "webhook_url_file": None})

    def stage(self, by: str, policy: str = "page") -> int:
        """Stages the next release; returns its number."""
        number = releases.next_number(self.layout)
        unit, port = f"lab-{number:04d}.service", PORTS + number
        files = {
            unit: f"[Unit]\nDescription=release {number} port {port}\n".encode(),
            "lab-front.socket": _FRONT_UNIT, "lab-front.service": _FRONT_UNIT,
        }  # fmt: skip
        manifest = {
            **self.spec(policy), "release": number, "unit": unit, "budget": number, "graphs": False,
            "algorithm": "NGRAM", "by": by, "front": {"port": PUBLIC},
            "engine": {
                "host": "127.0.0.1", "port": port, "python": f"{self.root}/engine/bin/python",
                "model": f"{self.root}/model", "sglang": "0.5.16", "speculates": True,
            },
            "expect": {"server_info": {"budget": number}, "graphs": False, "overlay_ranks": 1},
            "hardware": {"arch": "cpu", "gpus": 0, "gpu_memory_mib": 0},
            "files": {name: sha256(data).hexdigest() for name, data in files.items()},
        }  # fmt: skip
        requests.stage(self.layout, _packed(files), json.dumps(manifest).encode(), None)
        return number


def _packed(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()
