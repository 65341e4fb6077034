"""Starts what a release would start, on a machine without systemd: command and environment are rendered by ddops."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddops import limits, overlay, render
from ddops.agent.engine import Engine
from ddops.agent.errors import GateFailed
from ddops.profile import Drafting, Profile
from ddops.site import EngineEntry, HostEntry, Site
from ddops.sweep.cells import Cell

PLAIN = Drafting(algorithm="PLAIN", brought_by="sglang", budgets=(1, 1), drafter=False, topk=None, arguments={})

# SGLang draws this port at random otherwise, and servers that start together draw the same one now and then; below
# the ports that the kernel gives to connections
_NCCL_PORTS = 23000


@dataclass(frozen=True)
class Launch:
    """What all servers have in common. ``overlay`` is the folder that the overlay was unpacked into."""

    profile: Profile
    model: Path
    drafter: Path
    overlay: Path

    def unpack(self) -> None:
        """Writes the overlay as a release carries it."""
        for name, data in overlay.files().items():
            path = self.overlay / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def words(self, cell: Cell, number: int) -> tuple[list[str], dict[str, str]]:
        """Returns the command and the environment of a cell's server; its number makes its port."""
        profile = self.profile
        site = Site(
            hosts={"here": HostEntry(address="local")},
            engine=EngineEntry(python=sys.executable),
            model=str(self.model),
            drafter=str(self.drafter),
        )
        drafting = next((d for d in profile.speculation if d.algorithm == cell.algorithm), PLAIN)
        topk = min(drafting.topk, cell.budget) if drafting.topk else None
        options = render.Options(limits.compute(profile, drafting, cell.budget, None), cell.graphs, drafting, topk)
        words = render.command(profile, site, profile.service, options, number)
        if drafting is PLAIN:
            words = _without(words, "--speculative-")
        rendered = render.environment(profile, site, profile.service, options, f"{profile.service}-{number:04}")
        paths = [str(self.overlay), *filter(None, [os.environ.get("PYTHONPATH")])]
        # where this machine's own parts lie, a release's would not
        own = {n: os.environ[n] for n in ("HOME", "XDG_CACHE_HOME", "TVM_FFI_CACHE_DIR") if n in os.environ}
        return words, {**os.environ, **rendered, **own, "PYTHONPATH": ":".join(paths)}


class Server:
    """One server in a process group of its own, its output in a log."""

    def __init__(self, launch: Launch, cell: Cell, number: int, log: Path) -> None:
        words, environment = launch.words(cell, number)
        self.cell, self.log = cell, log
        self.engine = Engine("127.0.0.1", int(words[words.index("--port") + 1]))
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*words, "--sleep-on-idle", "--nccl-port", str(_NCCL_PORTS + number)],
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
            )

    def alive(self) -> None:
        """Raises GateFailed where it has ended."""
        if self._process.poll() is not None:
            raise GateFailed("the server ended", f"exit code {self._process.returncode}")

    def ready(self, until: float) -> None:
        """Waits for it, at most until the clock says ``until``; raises GateFailed."""
        while not self.engine.healthy(5):
            self.alive()
            if time.monotonic() > until:
                raise GateFailed("not ready in time")
            time.sleep(0.5)

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def served(launch: Launch, cells: list[Cell], logs: Path) -> Iterator[list[Server]]:
    """Starts a server for every cell at once; one that is asked nothing sleeps, and disturbs no other."""
    launch.unpack()
    logs.mkdir(parents=True, exist_ok=True)
    servers: list[Server] = []
    try:
        for number, cell in enumerate(cells, 1):
            graphs = "graphs" if cell.graphs else "eager"
            log = logs / f"{cell.algorithm}-{cell.budget}-{graphs}.log"
            servers.append(Server(launch, cell, number, log))
        yield servers
    finally:
        for server in servers:
            server.stop()


def _without(words: list[str], prefix: str) -> list[str]:
    kept, skip = [], False
    for word in words:
        if word.startswith("--"):
            skip = word.startswith(prefix)
        if not skip:
            kept.append(word)
    return kept
