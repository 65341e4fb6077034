"""Users who knock at the public port at a steady rate, and what each of them got."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from types import TracebackType

HANGS_S = 15.0  # no gate and no drain takes this long: an answer that is not there by then is not coming


class Knocking:
    """Asks for the capital of France, ``rate`` times a second, each time on a new connection.

    ``got`` counts what came back: right, refused (at connecting), reset (closed before an answer),
    loading (503), hung, or the wrong answer itself. ``right_after(moment)`` says whether someone who
    knocked after that moment (time.monotonic) was answered right.
    """

    def __init__(self, address: str, port: int, rate: float = 50) -> None:
        self._to, self._pause = (address, port), 1 / rate
        self._end = threading.Event()
        self._mutex = threading.Lock()
        self._users: list[threading.Thread] = []
        self._last_right = 0.0
        self.got: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Knocking:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end.set()
        self._thread.join()
        for user in self._users:
            user.join()

    def right_after(self, moment: float) -> bool:
        return self._last_right > moment

    def _run(self) -> None:
        next_at = time.monotonic()
        while not self._end.is_set():
            user = threading.Thread(target=self._user)
            user.start()
            self._users.append(user)
            next_at += self._pause
            time.sleep(max(0.0, next_at - time.monotonic()))

    def _user(self) -> None:
        began = time.monotonic()
        what = ask(*self._to)
        with self._mutex:
            self.got[what] += 1
            if what == "right":
                self._last_right = max(self._last_right, began)


def ask(address: str, port: int) -> str:
    """Asks once; returns one of the words that Knocking counts, or the wrong answer."""
    body = json.dumps({"messages": [{"role": "user", "content": "The capital of France?"}], "max_tokens": 12}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        with socket.create_connection((address, port), timeout=HANGS_S) as sock:
            sock.sendall(head.encode() + body)
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "hung"
    except OSError:
        return "reset"
    if not answer:
        return "reset"
    if answer.startswith(b"HTTP/1.1 503"):
        return "loading"
    return "right" if b"Paris" in answer else answer.decode(errors="replace")[:200]
