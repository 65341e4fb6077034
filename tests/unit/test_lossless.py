"""The judge of tokens: near-ties pass, wrong tokens do not, and the reference leads on."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.agent.engine import Engine
from ddops.agent.errors import GateFailed
from ddops.agent.gates import lossless

TOKENS = [10, 20, 30, 40]
SETTINGS = {"tolerance": 0.01, "max_divergent": 0.25, "tokens": 4, "concurrency": 2, "prompts": ["p", "q"]}


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
    assert lossless.judge(Scripted({0: TOKENS}), reference(), SETTINGS, 1) == []


def test_a_near_tie_passes_and_the_comparison_goes_on_from_the_references_token() -> None:
    engine = Scripted({0: [10, 21, 99, 99], 2: [30, 40]})
    ties = lossless.judge(engine, reference(gap=0.005), SETTINGS, 1)
    assert [(t["position"], t["token"], t["gap_nats"]) for t in ties] == [(1, 21, 0.005)]
    assert engine.asked == [[1, 2], [1, 2, 10, 20]]  # type: ignore[attr-defined]


def test_a_token_beyond_the_tolerance_fails() -> None:
    with pytest.raises(GateFailed, match="a wrong token"):
        lossless.judge(Scripted({0: [10, 21, 99, 99]}), reference(gap=0.05), SETTINGS, 1)


def test_a_token_that_known_good_never_thought_of_fails() -> None:
    with pytest.raises(GateFailed) as caught:
        lossless.judge(Scripted({0: [10, 77, 30, 40]}), reference(), SETTINGS, 1)
    assert "not among its 2 best at position 1" in caught.value.why


def test_a_divergence_at_the_last_position_is_judged_too() -> None:
    with pytest.raises(GateFailed):
        lossless.judge(Scripted({0: [10, 20, 30, 99]}), reference(), SETTINGS, 1)


def test_too_few_tokens_fail() -> None:
    with pytest.raises(GateFailed, match="3 tokens came back, 4 were asked for"):
        lossless.judge(Scripted({0: [10, 20, 30]}), reference(), SETTINGS, 1)


def test_wrong_after_a_near_tie_fails() -> None:
    with pytest.raises(GateFailed):
        lossless.judge(Scripted({0: [10, 21, 99, 99], 2: [77, 40]}), reference(gap=0.005), SETTINGS, 1)


def test_where_log_probabilities_are_not_known_a_share_of_the_tokens_may_differ() -> None:
    known = {**reference(), "top": None}
    ties = lossless.judge(Scripted({0: [10, 77, 99, 99], 2: [30, 40]}), known, SETTINGS, 1)
    assert [(t["position"], t["token"], t["reference_token"], t["gap_nats"]) for t in ties] == [(1, 77, 20, None)]
    with pytest.raises(GateFailed, match="more near-ties") as caught:
        lossless.judge(Scripted({0: [10, 77, 99, 99], 2: [30, 99]}), known, SETTINGS, 1)
    assert caught.value.why == "2 of 4 tokens in 'p', 1 may be"
    with pytest.raises(GateFailed):
        lossless.judge(Scripted({0: [77, 0, 0, 0], 1: [77, 0, 0]}), known, {**SETTINGS, "max_divergent": 0.0}, 1)


class Serving(Engine):
    """Serves with an algorithm; tokens are the prompt's length and upwards."""

    def __init__(self, algorithm: str | None, *, tells_ids: bool = True) -> None:
        super().__init__("127.0.0.1", 1)
        object.__setattr__(self, "algorithm", algorithm)
        object.__setattr__(self, "tells_ids", tells_ids)

    def get_json(self, path: str, timeout: float) -> Any:
        assert path == "/server_info"
        return {"speculative_algorithm": self.algorithm}  # type: ignore[attr-defined]

    def post(self, path: str, body: dict[str, Any], timeout: float) -> Any:
        assert path == "/generate"
        if body.get("return_logprob"):
            if self.algorithm in ("DFLASH", "DDTREE"):  # type: ignore[attr-defined]
                raise GateFailed("/generate answered 400", "does not support return_logprob yet")
            told = [[-0.1, token, None] for token in TOKENS]
            top = [[one] for one in told]
            meta = {"output_token_logprobs": told, "output_top_logprobs": top}
            return {"meta_info": {**meta, "input_token_logprobs": [[None, 1, None], [-1.0, 2, None]]}}
        asked = body.get("return_prompt_token_ids") and self.tells_ids  # type: ignore[attr-defined]
        return {"output_ids": TOKENS, **({"prompt_token_ids": [1, 2]} if asked else {})}


@pytest.mark.parametrize(("algorithm", "told"), [("NGRAM", True), (None, True), ("DFLASH", False), ("DDTREE", False)])
def test_an_engine_that_tells_no_log_probabilities_is_recorded_by_its_tokens(algorithm: str | None, told: bool) -> None:
    found = lossless.record(Serving(algorithm), SETTINGS, 1)
    assert [(r["prompt"], r["input_ids"], r["tokens"]) for r in found] == [("p", [1, 2], TOKENS), ("q", [1, 2], TOKENS)]
    assert all((r["top"] is not None) is told for r in found)


def test_tokens_that_do_not_all_come_are_no_record() -> None:
    with pytest.raises(GateFailed, match="4 tokens came back, 9 were asked for"):
        lossless.record(Serving("DDTREE"), {**SETTINGS, "tokens": 9}, 1)


def test_without_the_prompts_token_ids_there_is_no_record() -> None:
    with pytest.raises(GateFailed, match="does not tell the token ids"):
        lossless.record(Serving("DDTREE", tells_ids=False), SETTINGS, 1)
