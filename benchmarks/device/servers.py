"""Starts SGLang servers on this machine: plain, stock DFLASH, or DDTREE. One process group each, logs in a folder."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ARGUMENTS = [
    *("--host", "127.0.0.1", "--attention-backend", "triton", "--sampling-backend", "pytorch"),
    *("--grammar-backend", "none", "--mem-fraction-static", "0.8", "--max-total-tokens", "40000"),
    *("--max-running-requests", "16", "--context-length", "4096", "--random-seed", "1"),
    *("--cuda-graph-max-bs-prefill", "512", "--skip-server-warmup"),
]
# captured for 1, 2, 4 and 8 requests, so that batches of 3 and 5 are padded
GRAPHS = ["--cuda-graph-bs-decode", "1", "2", "4", "8"]


class Servers:
    """Ports from FIRST_PORT, and those 4000 above for NCCL: two scripts side by side need different ones."""

    def __init__(self, folder: Path, model: list[str]) -> None:
        self._folder, self._model, self._port = folder, model, int(os.environ.get("FIRST_PORT", "20000"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ports: dict[str, int] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def start(
        self,
        name: str,
        *arguments: str,
        graphs: bool = True,
        ddtree: dict[str, Any] | None = None,
        plugins: str = "ddops-overlay",
        wrap: tuple[str, ...] = (),
        **environment: str,
    ) -> None:
        self.ports[name] = port = self._port
        self._port += 2
        more = ["--speculative-algorithm", "DDTREE"] if ddtree else []
        more += GRAPHS if graphs else ["--disable-cuda-graph"]
        command = [*wrap, sys.executable, "-m", "sglang.launch_server", *self._model, *ARGUMENTS, *more, *arguments]
        command += ["--port", str(port), "--nccl-port", str(port + 4000)]
        settings = {"release": None, "ddtree": ddtree}
        environment = {
            **os.environ,
            "SGLANG_PLUGINS": plugins,
            "DDOPS_OVERLAY": json.dumps(settings),
            **environment,
        }
        log = (self._folder / f"{name}.log").open("wb")
        self._processes[name] = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, start_new_session=True
        )

    def wait(self, name: str, seconds: float, quiet: bool = False) -> bool:
        """Whether the server got ready; if not, prints the end of its log."""
        start, log = time.monotonic(), self._folder / f"{name}.log"
        while time.monotonic() - start < seconds:
            text = log.read_text(errors="replace")
            if "fired up" in text:
                return True
            if self._processes[name].poll() is not None:
                break
            time.sleep(0.3)
        if quiet:
            return False
        tail = [line for line in log.read_text(errors="replace").splitlines() if line and "ddops_overlay" not in line]
        print(name, "NOT READY\n", "\n".join(line[:200] for line in tail[-12:]), flush=True)  # noqa: T201
        return False

    def lines(self, name: str, key: str) -> list[dict[str, Any]]:
        """The JSON lines of that key in a server's log."""
        text = (self._folder / f"{name}.log").read_text(errors="replace")
        return [json.loads(line)[key] for line in text.splitlines() if line.startswith(f'{{"{key}"')]

    def stop(self, *names: str) -> None:
        for name in names or tuple(self._processes):
            process = self._processes.pop(name, None)
            if process is None:
                continue
            # one that failed has left its group already
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
