"""What a sweep measures of a trial, asked of an engine that stands for one."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any

from ddops.agent.errors import GateFailed
from ddops.agent.measure import measure


class Answering:
    """Streams what is asked for; the first batch of each size fails, as one that is still compiled for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, int]] = []
        self._lock = Lock()

    def stream(self, _path: str, body: dict[str, Any], _timeout: float) -> Iterator[dict[str, Any]]:
        text, tokens = body["text"], body["sampling_params"]["max_new_tokens"]
        size = int(text[1 : text.index(".")])
        with self._lock:
            before = sum(other == size for other, *_ in self.asked)
            self.asked.append((size, text, tokens))
        if before < size:
            raise GateFailed("no answer", "still compiling")
        for count in range(1, tokens + 1):
            yield {"meta_info": {"completion_tokens": count, "prompt_tokens": 4, "spec_verify_ct": -(-count // 2)}}


def test_each_concurrency_is_met_once_before_it_is_measured() -> None:
    engine = Answering()
    asked = {"concurrency": [1, 3], "requests": 3, "tokens": 20, "repeats": 2}

    found = measure(engine, asked, ["a", "b"], lambda: 1.0, lambda _: None)  # type: ignore[arg-type]

    assert [row["failed"] for row in found] == [0, 0]
    assert [len(row["tok_s_runs"]) for row in found] == [2, 2]
    tokens = {size: [asked for other, _, asked in engine.asked if other == size] for size in (1, 3)}
    assert tokens == {1: [8] + [20] * 6, 3: [8] * 3 + [20] * 6}
    texts = [text for _, text, _ in engine.asked]
    assert len(set(texts)) == len(texts), "a prefix cache would know one"
