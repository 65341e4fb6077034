"""Sending a load with asyncio, each stream's parts timed as they come."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx

from ..agent.stream import Part, Stream
from ..errors import Refused, Unreachable, UsageError
from .load import Load, arrivals, bodies

Report = Callable[[Stream], None]

if importlib.util.find_spec("sniffio") is None:
    # httpcore tries to import it at every step of a request: told at once that it is not there, it does not look
    # through the disk each time, some milliseconds in the time to the first token
    sys.modules["sniffio"] = None  # type: ignore[assignment]


def run(url: str, load: Load, number: int, report: Report) -> list[Stream]:
    """Sends a load and returns its streams in the order in which they began; ``report`` gets each as it ends.

    Raises UsageError for a URL that is none; whatever else goes wrong is a stream's error.
    """
    try:
        if httpx.URL(url).scheme not in ("http", "https"):
            raise httpx.InvalidURL("it does not begin with http:// or https://")
        if not 0 < (httpx.URL(url).port or 80) < 65536:
            raise httpx.InvalidURL("its port is none")
        return asyncio.run(_run(url, load, number, report))
    except httpx.InvalidURL as error:
        raise UsageError(f"'{url}' is no URL", str(error), "--url http://192.0.2.7:30000") from None


async def _run(url: str, load: Load, number: int, report: Report) -> list[Stream]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    # a proxy of the operator's environment would be measured too
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=load.timeout, trust_env=False) as client:
        if load.flush:
            await _flush(client)
        made = bodies(load, load.warmup + load.requests, number)
        for body in made[: load.warmup]:
            await _stream(client, body, time.perf_counter(), load.timeout)
        send = _Sender(client, made[load.warmup :], load.timeout, report)
        if load.rate is not None:
            return await send.open(arrivals(load.rate, load.requests, load.seed, number))
        return await send.closed(load.concurrency or 1)


async def _flush(client: httpx.AsyncClient) -> None:
    try:
        answer = await client.post("/flush_cache")
    except httpx.HTTPError as error:
        raise Unreachable("the cache could not be flushed", str(error) or type(error).__name__) from None
    if answer.status_code != 200:
        raise Refused("the cache was not flushed", answer.text[:300].strip(), "SGLang flushes while no request runs")


class _Sender:
    """The requests of one run, and the streams that they become."""

    def __init__(
        self, client: httpx.AsyncClient, requests: list[dict[str, Any]], timeout: float, report: Report
    ) -> None:
        self.client, self.requests, self.timeout, self.report = client, requests, timeout, report
        self.streams: list[Stream] = []

    async def closed(self, concurrency: int) -> list[Stream]:
        """Keeps so many streams running until every request was sent."""
        rest = iter(self.requests)

        async def worker() -> None:
            for body in rest:
                await self._one(body, time.perf_counter())

        await asyncio.gather(*(worker() for _ in range(concurrency)))
        return self._in_order()

    async def open(self, due: list[float]) -> list[Stream]:
        """Sends each request when it is due, whatever became of those before."""
        began = time.perf_counter()

        async def later(body: dict[str, Any], at: float) -> None:
            await asyncio.sleep(began + at - time.perf_counter())
            await self._one(body, began + at)

        await asyncio.gather(*(later(body, at) for body, at in zip(self.requests, due, strict=True)))
        return self._in_order()

    async def _one(self, body: dict[str, Any], began: float) -> None:
        stream = await _stream(self.client, body, began, self.timeout)
        self.streams.append(stream)
        self.report(stream)

    def _in_order(self) -> list[Stream]:
        return sorted(self.streams, key=lambda s: s.began)


async def _stream(client: httpx.AsyncClient, body: dict[str, Any], began: float, timeout: float) -> Stream:
    """Sends one request and returns its stream; whatever goes wrong is the stream's error."""
    parts: list[Part] = []
    meta: dict[str, Any] = {}
    ended: float | None
    error, ended = "the stream ended without [DONE]", None
    try:
        async with asyncio.timeout(timeout), client.stream("POST", "/generate", json=body) as response:
            if response.status_code != 200:
                text = (await response.aread())[:300].decode(errors="replace")
                return Stream(began, time.perf_counter(), error=f"{response.status_code}: {text}")
            async for line in response.aiter_lines():
                at = time.perf_counter()
                data = line.removeprefix("data:").strip()
                if not line.startswith("data:"):
                    continue
                if data == "[DONE]":
                    error, ended = "", at
                    continue  # read to its very end, a connection serves the next request too
                event = json.loads(data)
                if "error" in event:
                    return Stream(began, at, tuple(parts), error=str(event["error"])[:300])
                meta = event["meta_info"]
                count = int(meta["completion_tokens"])
                if count > (parts[-1].tokens if parts else 0):
                    parts.append(Part(at, count))
    except TimeoutError:
        error = f"no end within {timeout:g} s"
    except httpx.HTTPError as failure:
        error = str(failure) or type(failure).__name__
    except (ValueError, KeyError, TypeError) as failure:
        error = f"an answer that is none of SGLang's: {failure!r}"
    if not error and (not parts or parts[-1].tokens < body["sampling_params"]["max_new_tokens"]):
        error = f"{parts[-1].tokens if parts else 0} tokens came"
    ended = ended or time.perf_counter()
    steps = meta.get("spec_verify_ct")
    prompt = int(meta.get("prompt_tokens", 0))
    return Stream(began, ended, tuple(parts), prompt, None if steps is None else int(steps), error)
