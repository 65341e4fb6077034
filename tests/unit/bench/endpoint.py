"""A scripted HTTP endpoint that answers /generate as SGLang does, part by part."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Script:
    """What the endpoint does; ``bad`` names how the requests of those numbers (from 0) end.

    A stream has ``parts`` (the tokens up to each). With ``crowd`` each request waits until so many run at once.
    """

    parts: tuple[int, ...]
    steps: int | None = None
    bad: dict[int, str] = field(default_factory=dict)
    crowd: int = 1
    asked: list[dict[str, Any]] = field(default_factory=list)
    flushed: int = 0
    connections: int = 0
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.crowd)


class Handler(BaseHTTPRequestHandler):
    script: Script
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        with self.script.mutex:
            self.script.connections += 1

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
        if self.path == "/flush_cache":
            self.script.flushed += 1
            self._whole(200, b"Cache flushed.")
        else:
            self._generate(body)

    def _generate(self, body: dict[str, Any]) -> None:
        with self.script.mutex:
            number = len(self.script.asked)
            self.script.asked.append(body)
        self.script.barrier.wait(10)
        bad = self.script.bad.get(number, "")
        if bad == "refuses":
            self._whole(503, b'{"error": "full"}')
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for count in self.script.parts[: {"": None, "too short": -1}.get(bad, 2)]:
            meta: dict[str, Any] = {"completion_tokens": count, "prompt_tokens": 7}
            if self.script.steps is not None and count == self.script.parts[-1]:
                meta["spec_verify_ct"] = self.script.steps
            self._event({"text": "x" * count, "meta_info": meta})
        if bad == "error":
            self._event({"error": {"message": "aborted"}})
        if bad == "garbage":
            self._chunk(b"data: {\n\n")
        if bad in ("", "too short"):
            self._chunk(b"data: [DONE]\n\n")
        if bad != "cut":
            self._chunk(b"")
        self.close_connection = bad == "cut"

    def _event(self, value: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _whole(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextlib.contextmanager
def serving(script: Script) -> Iterator[str]:
    """Serves the script on loopback; gives its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Scripted", (Handler,), {"script": script}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
