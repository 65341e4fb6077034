"""The judge of tokens: near-ties pass, wrong tokens do not, and the reference leads on."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.agent.engine import Engine
from ddops.agent.errors import GateFailed
from ddops.agent.gates import lossless

TOKENS = [10, 20, 30, 40]


class Scripted(Engine):
    """Answers with the tokens that a table holds for the number of tokens already given."""

    def __init__(self, answers: dict[int, list[int]]) -> None:
        super().__init__("127.0.0.1", 1)
        object.__setattr__(self, "answers", answers)
        object.__setattr__(self, "asked", [])

    def post(self, path: str, body: dict[str, Any], timeout: float) -> Any:
        given = body["input_ids"]
        self.asked.append(given)  # type: ignore[attr-defined]
        return {"output_ids": self.answers[len(given) - 2]}  # type: ignore[attr-defined]


def reference(gap: float = 0.05) -> dict[str, Any]:
    """Four tokens; at position 1 token 21 is ``gap`` nats below the best."""
    top = [[[t, -0.1], [t + 1, -0.1 - (gap if t == 20 else 3.0)]] for t in TOKENS]
    return {"prompt": "p", "input_ids": [1, 2], "tokens": TOKENS, "top": top}


def test_the_same_tokens_pass_without_a_tie() -> None:
    assert lossless.judge(Scripted({0: TOKENS}), reference(), 0.01, 1) == []


def test_a_near_tie_passes_and_the_comparison_goes_on_from_the_references_token() -> None:
    engine = Scripted({0: [10, 21, 99, 99], 2: [30, 40]})
    ties = lossless.judge(engine, reference(gap=0.005), 0.01, 1)
    assert [(t["position"], t["token"], t["gap_nats"]) for t in ties] == [(1, 21, 0.005)]
    assert engine.asked == [[1, 2], [1, 2, 10, 20]]  # type: ignore[attr-defined]


def test_a_token_beyond_the_tolerance_fails() -> None:
    with pytest.raises(GateFailed, match="a wrong token"):
        lossless.judge(Scripted({0: [10, 21, 99, 99]}), reference(gap=0.05), 0.01, 1)


def test_a_token_that_known_good_never_thought_of_fails() -> None:
    with pytest.raises(GateFailed) as caught:
        lossless.judge(Scripted({0: [10, 77, 30, 40]}), reference(), 0.01, 1)
    assert "not among its 2 best at position 1" in caught.value.why


def test_a_divergence_at_the_last_position_is_judged_too() -> None:
    with pytest.raises(GateFailed):
        lossless.judge(Scripted({0: [10, 20, 30, 99]}), reference(), 0.01, 1)


def test_too_few_tokens_fail() -> None:
    with pytest.raises(GateFailed, match="3 tokens came back, 4 were asked for"):
        lossless.judge(Scripted({0: [10, 20, 30]}), reference(), 0.01, 1)


def test_wrong_after_a_near_tie_fails() -> None:
    with pytest.raises(GateFailed):
        lossless.judge(Scripted({0: [10, 21, 99, 99], 2: [77, 40]}), reference(gap=0.005), 0.01, 1)
