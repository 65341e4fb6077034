"""An engine's HTTP side as the gates use it: SGLang's own endpoints, on loopback, each call with a time-out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import GateFailed, NoAnswer

if TYPE_CHECKING:
    import http.client


@dataclass(frozen=True)
class Engine:
    """The engine that listens on ``host:port``."""

    host: str
    port: int

    def get(self, path: str, timeout: float) -> bytes:
        """Returns a body; raises GateFailed for anything but 200 within ``timeout`` seconds."""
        return self._ask("GET", path, None, timeout)

    def get_json(self, path: str, timeout: float) -> Any:
        return self._parse(path, self.get(path, timeout))

    def post(self, path: str, body: dict[str, Any], timeout: float) -> Any:
        """Posts JSON and returns the JSON that comes back."""
        return self._parse(path, self._ask("POST", path, body, timeout))

    def flush_cache(self, timeout: float) -> None:
        """Empties the prefix cache and what a drafter remembers; raises GateFailed while requests run."""
        self._ask("POST", "/flush_cache", {}, timeout)

    def stream(self, path: str, body: dict[str, Any], timeout: float) -> Iterator[Any]:
        """Posts JSON and yields each server-sent event; raises GateFailed if the stream does not end in [DONE]."""
        import http.client  # a plan asks no engine, and need not wait for this

        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            response = self._send(connection, "POST", path, {**body, "stream": True})
            for line in response:
                if not line.startswith(b"data:"):
                    continue
                data = line[5:].strip()
                if data == b"[DONE]":
                    return
                yield self._parse(path, data)
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{path} broke off in mid-stream", str(error) or type(error).__name__) from error
        finally:
            connection.close()
        raise GateFailed(f"{path} broke off in mid-stream", "the stream ended without [DONE]")

    def healthy(self, timeout: float) -> bool:
        """Asks /health, which generates a token and never answers in less than a second."""
        try:
            self.get("/health", timeout)
        except GateFailed:
            return False
        return True

    def chat(
        self, prompt: str, tokens: int, timeout: float, *, stream: bool, more: dict[str, Any] | None = None
    ) -> str:
        """Returns the greedy answer to one user message; ``more`` is added to the request."""
        body: dict[str, Any] = {
            "model": "default",
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": tokens,
            "temperature": 0,
            **(more or {}),
        }
        path = "/v1/chat/completions"
        if not stream:
            answer = self.post(path, body, timeout)
            return str(answer["choices"][0]["message"]["content"] or "")
        parts = []
        for event in self.stream(path, body, timeout):
            for choice in event.get("choices", []):
                parts.append(choice.get("delta", {}).get("content") or "")
        return "".join(parts)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> bytes:
        import http.client  # a plan asks no engine, and need not wait for this

        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            return self._send(connection, method, path, body).read()
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{path} gave no answer", str(error) or type(error).__name__) from error
        finally:
            connection.close()

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: dict[str, Any] | None
    ) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
        response = connection.getresponse()
        if response.status != 200:
            raise GateFailed(f"{path} answered {response.status}", response.read(300).decode(errors="replace"))
        return response

    @staticmethod
    def _parse(path: str, data: bytes) -> Any:
        try:
            return json.loads(data)
        except ValueError:
            raise GateFailed(f"{path} answered no JSON", data[:200].decode(errors="replace")) from None
