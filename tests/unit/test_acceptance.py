"""Accept lengths: from the middle of streams, like passes compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ddops.agent.engine import Engine
from ddops.agent.errors import GateFailed
from ddops.agent.gates import acceptance

SETTINGS = {"prompts": ["a", "b"], "tokens": 48, "min_accept_length": 1.05, "tolerance": 0.25}


class Streaming(Engine):
    """Streams 48 tokens, ``step`` in each part after the first."""

    def __init__(self, step: int, joined: int = 1, speculates: bool = True) -> None:
        super().__init__("127.0.0.1", 1)
        object.__setattr__(self, "shape", (step, joined, speculates))

    def flush_cache(self, timeout: float) -> None:
        if getattr(self, "busy", False):
            raise GateFailed("/flush_cache answered 400")

    def stream(self, path: str, body: dict[str, Any], timeout: float) -> Iterator[Any]:
        step, joined, speculates = self.shape  # type: ignore[attr-defined]
        parts = [1, *range(1 + step, 48, step), 48]
        steps = len(parts) - 1
        kept = [parts[0], *parts[joined::joined]]
        if kept[-1] != 48:
            kept.append(48)
        for at in kept:
            meta: dict[str, Any] = {"completion_tokens": at}
            if speculates and at == 48:
                meta["spec_verify_ct"] = steps
            yield {"meta_info": meta}


@pytest.mark.parametrize("step", [1, 2, 4])
def test_the_middle_of_the_stream_is_measured(step: int) -> None:
    assert acceptance.measure(Streaming(step), SETTINGS, 1) == {"cold": step, "warm": step}


def test_parts_that_were_joined_on_their_way_do_not_flatter() -> None:
    found = acceptance.measure(Streaming(2, joined=2), SETTINGS, 1)
    assert found["cold"] == pytest.approx(2, rel=0.1)


def test_an_engine_that_does_not_speculate_fails() -> None:
    with pytest.raises(GateFailed, match="does not speculate"):
        acceptance.measure(Streaming(1, speculates=False), SETTINGS, 1)


def test_a_known_good_that_is_never_quiet_has_no_cold_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Streaming(2)
    object.__setattr__(engine, "busy", True)
    monkeypatch.setattr(acceptance, "_QUIET_S", 0.01)
    assert acceptance.measure(engine, SETTINGS, 1) == {"warm": 2}
    with pytest.raises(GateFailed, match="never quiet"):
        acceptance.acceptance(engine, None, SETTINGS, 1)


def test_a_collapse_fails_and_a_small_loss_does_not() -> None:
    known = {"cold": 2.5, "warm": 2.5}
    assert acceptance.acceptance(Streaming(2), known, SETTINGS, 1)["accept_length"]["cold"] == 2
    with pytest.raises(GateFailed, match=r"collapsed: 1\.00 in the cold pass"):
        acceptance.acceptance(Streaming(1), known, SETTINGS, 1)


def test_without_a_known_good_that_speculates_more_than_plain_decoding_is_wanted() -> None:
    with pytest.raises(GateFailed, match="collapsed"):
        acceptance.acceptance(Streaming(1), None, SETTINGS, 1)
