"""Garbage is told from text by numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddops import profile
from ddops.agent.engine import Engine
from ddops.agent.suites.garbage import garbage, measures, problems_of

LIMITS = profile.load("b300").suites.garbage.model_dump()
TEXT = (
    "To bake bread you mix flour, water, salt and yeast, and knead it for ten minutes. Then the dough rests in a warm "
    "place until it has doubled. Shape it, let it rise once more, and bake it at 230 degrees for half an hour.\n\n"
    "## Notes\n\n| flour | water |\n|-------|-------|\n| 500 g | 320 g |\n"
)


def test_the_measures_are_exact() -> None:
    assert measures("aabb") == {"characters": 4, "entropy": 1, "run": 2, "repeated": 0, "odd": 0}
    assert measures("!" * 40) == {"characters": 40, "entropy": 0, "run": 40, "repeated": round(16 / 17, 3), "odd": 0}
    assert measures("a b c d e f a b c d e f")["repeated"] == round(1 / 7, 3)
    assert measures("ab\ufffd\x00")["odd"] == 0.5
    assert measures("") == {"characters": 0, "entropy": 0, "run": 0, "repeated": 0, "odd": 0}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("!" * 200, "entropy 0 bits"),
        (TEXT + "!" * 65, "65 times in a row"),
        ("the cat sat on the mat and then " * 20, "came before"),
        ("ternational" * 100, "came before"),
        ("<|im_end|>" * 100, "came before"),
        ("\ufffd" * 3 + TEXT[:200], "no text"),
        ("", "empty"),
        ("You mix flour and water, and", "after 28 characters"),
        (" \n", "entropy"),
    ],
)
def test_garbage_is_told(text: str, told: str) -> None:
    assert any(told in problem for problem in problems_of(measures(text), LIMITS))


CHINESE = (  # a script that has no spaces
    "烤面包时先把面粉、水、盐和酵母混合揉十分钟。再放在温暖的地方直到面团涨到两倍大。"
    "然后整形并再发一次。最后送入烤箱烤半小时即可。"
)


@pytest.mark.parametrize(
    "text", [TEXT, CHINESE, "def f(a):\n    # " + "=" * 60 + "\n    return [x for x in a if x > 3]\n"]
)
def test_text_is_not(text: str) -> None:
    assert problems_of(measures(text), LIMITS) == []


@given(st.text())
def test_measures_hold_for_any_text(text: str) -> None:
    found = measures(text)
    assert 0 <= found["run"] <= found["characters"] == len(text)
    assert 0 <= found["repeated"] <= 1
    assert 0 <= found["odd"] <= 1
    assert 0 <= found["entropy"] <= 21


class Answering(Engine):
    """Answers every prompt alike, and streams two tokens a step, or one."""

    def __init__(self, answer: str, step: int) -> None:
        super().__init__("127.0.0.1", 1)
        object.__setattr__(self, "shape", (answer, step))

    def chat(self, prompt: str, tokens: int, timeout: float, *, stream: bool, more: Any = None) -> str:
        return str(self.shape[0])  # type: ignore[attr-defined]

    def stream(self, path: str, body: dict[str, Any], timeout: float) -> Iterator[Any]:
        parts = list(range(1, 62, self.shape[1]))  # type: ignore[attr-defined]
        for at in parts:
            yield {"meta_info": {"completion_tokens": at, "spec_verify_ct": len(parts) - 1}}


@pytest.mark.parametrize(
    ("answer", "step", "least", "found"),
    [(TEXT, 2, 1.05, 0), (TEXT, 1, 1.05, 1), (TEXT, 1, None, 0), ("!" * 99, 2, None, 12), ("!" * 99, 1, 1.05, 13)],
)
def test_an_engine_passes_or_each_problem_is_told(answer: str, step: int, least: float | None, found: int) -> None:
    settings = {**LIMITS, "request": {}, "min_accept_length": least}
    evidence = garbage(Answering(answer, step), settings, 1)
    assert len(evidence["problems"]) == found
    assert evidence["accept_length"] == (None if least is None else step)
    assert len(evidence["judged"]) == len(LIMITS["prompts"])
