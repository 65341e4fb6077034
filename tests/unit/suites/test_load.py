"""The load leaves streams in the middle, and not always the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ddops import profile
from ddops.agent.engine import Engine
from ddops.agent.suites.load import load


class Counting(Engine):
    """Streams what is asked for, and counts which lengths were read to their end."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1", 1)
        object.__setattr__(self, "ended", set())

    def chat(self, prompt: str, tokens: int, timeout: float, *, stream: bool, more: Any = None) -> str:
        return "Paris"

    def stream(self, path: str, body: dict[str, Any], timeout: float) -> Iterator[Any]:
        tokens = body["sampling_params"]["max_new_tokens"]
        for count in range(1, tokens + 1):
            yield {"meta_info": {"completion_tokens": count}}
        self.ended.add(tokens)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", profile.names())
def test_every_length_is_seen_to_its_end_and_some_are_left(name: str) -> None:
    settings = profile.load(name).suites.load.model_dump()
    settings |= {"prompts": ["a"], "question": {"prompt": "q", "expect": "Paris"}, "question_tokens": 4}
    engine = Counting()
    evidence = load(engine, settings, 1)
    assert evidence["problems"] == []
    assert engine.ended == set(settings["tokens"])  # type: ignore[attr-defined]
    assert evidence["aborted"] == evidence["streams"] // settings["abort_every"]
