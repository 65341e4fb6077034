"""Engines in memory: what a release's process does, prints and answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddops.agent.errors import GateFailed

if TYPE_CHECKING:
    from .host import Host

FAULT = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
READY = "The server is fired up and ready to roll!"
ANSWERS = {"France": "Paris", "Germany": "Berlin", "Japan": "Tokyo"}
# what no gate may let through
BAD = ("faults-in-load", "exits-in-load", "never-ready", "silent", "wrong", "wrong-tokens", "collapsed", "settings",
       "no-overlay", "graphs")  # fmt: skip
# what is good until something happens, or all the time
GOOD = ("good", "faults-after", "dies-after", "exits-after", "hangs-after")


@dataclass
class Behaviour:
    """What the engine of a release does; ``after`` counts requests."""

    kind: str = "good"
    after: int = 0
    load_s: float = 1.0
    stop_s: float = 0.2  # to end after SIGTERM
    stuck_s: float = 0.0  # a process in the kernel that not even SIGKILL ends before that


@dataclass
class Process:
    """An engine's process group: its main process, and one that may be stuck."""

    unit: str
    release: int
    port: int
    pid: int
    invocation: str
    behaviour: Behaviour
    healthy: bool = False
    requests: int = 0
    hangs: bool = False
    ended: int = field(default_factory=lambda: os.eventfd(0, os.EFD_NONBLOCK))


def life(host: Host, process: Process) -> None:
    """Begins the life of a process: its load, with what it prints."""
    kind = process.behaviour.kind

    def prints(line: str) -> None:
        host.journal.prints(process, line)

    def loaded() -> None:
        if not host.units.lives(process) or kind == "never-ready":
            return
        if kind == "faults-in-load":
            prints(FAULT)
            host.units.ends(process, "killed", "9")
        elif kind == "exits-in-load":
            host.units.ends(process, "exited", "0")
        else:
            if kind != "silent":
                prints(READY)
            process.healthy = True

    prints("server_args=ServerArgs(...)")
    if kind != "no-overlay":
        prints(json.dumps({"ddops_overlay": {
            "ok": True, "process": "scheduler", "tp_rank": 0, "release": f"lab-{process.release:04d}",
        }}))  # fmt: skip
    host.turns.at(process.behaviour.load_s, loaded)


class Answers:
    """The HTTP side; stands for ``Engine`` in the agent."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def ask(self, engine: Any, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> bytes:
        return json.dumps(self._answer(engine.port, path, body or {}, timeout)).encode()

    def stream(self, engine: Any, path: str, body: dict[str, Any], timeout: float) -> Iterator[Any]:
        answer = self._answer(engine.port, path, body, timeout)
        if path != "/generate":
            yield {"choices": [{"delta": {"content": answer["choices"][0]["message"]["content"]}}]}
            return
        process = self._host.units.listening(engine.port)
        step = 1 if process and process.behaviour.kind == "collapsed" else 3
        parts = list(range(1, body["sampling_params"]["max_new_tokens"] + 1, step))
        for at in parts:
            yield {"meta_info": {"completion_tokens": at, "spec_verify_ct": len(parts) - 1}}

    def _answer(self, port: int, path: str, body: dict[str, Any], timeout: float) -> Any:
        host = self._host
        host.turns.sleep(0.01)
        process = host.units.listening(port)
        if process is None or not process.healthy:
            raise GateFailed(f"{path} gave no answer", "Connection refused")
        behaviour = process.behaviour
        process.requests += 1
        if behaviour.kind.endswith("-after") and process.requests > behaviour.after:
            self._turns_bad(process)
        if process.hangs:
            host.turns.sleep(timeout)
            raise GateFailed(f"{path} gave no answer", "timed out")
        if not host.units.lives(process):
            raise GateFailed(f"{path} gave no answer", "Connection reset by peer")
        return self._of(process, path, body)

    def _turns_bad(self, process: Process) -> None:
        host, kind = self._host, process.behaviour.kind
        if kind == "hangs-after":
            process.hangs = True
        elif kind == "exits-after":
            host.units.ends(process, "exited", "0")
        else:
            if kind == "faults-after":
                host.journal.prints(process, FAULT)
            host.units.ends(process, "killed", "9")

    def _of(self, process: Process, path: str, body: dict[str, Any]) -> Any:
        kind = process.behaviour.kind
        if path in ("/health", "/flush_cache"):
            return {}
        if path == "/server_info":
            return {"budget": -1 if kind == "settings" else process.release}
        graphs = kind == "graphs"
        self._host.journal.prints(
            process, f"Decode batch, #running-req: 1, accept len: 3.00, cuda graph: {graphs}, #queue-req: 0"
        )
        if path == "/v1/chat/completions":
            prompt = body["messages"][0]["content"]
            right = next(capital for country, capital in ANSWERS.items() if country in prompt)
            return {"choices": [{"message": {"content": "Nowhere" if kind == "wrong" else right}}]}
        tokens = body["sampling_params"]["max_new_tokens"]
        first = len(body.get("input_ids", [1, 2, 3]))
        ids = [99] * tokens if kind == "wrong-tokens" else list(range(first, first + tokens))
        return {
            "text": "4, 5, 6",
            "output_ids": ids,
            "meta_info": {
                "input_token_logprobs": [[0.0, token, None] for token in (1, 2, 3)],
                "output_token_logprobs": [[-0.1, token, None] for token in ids],
                "output_top_logprobs": [[[-0.1, token, None], [-5.0, token + 1000, None]] for token in ids],
            },
        }
