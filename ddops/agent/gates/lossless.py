"""Lossless: fixed prompts against what known-good answered, judged token by token.

A bare comparison of texts would reject a release for a rounding at a near-tie, so each token is
judged by the reference's own log-probabilities: it must be among the reference's best and within the
tolerance of the best one; after a divergence the comparison goes on from the reference's token.

SGLang tells no log-probabilities while it speculates with a DFlash drafter. Of such a known-good the tokens
alone are kept, and a share of them may differ: a right engine leaves them at near-ties, a wrong one everywhere.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..engine import Engine
from ..errors import GateFailed

TOP = 8  # alternatives recorded for each position
_NO_LOGPROBS = ("DFLASH", "DDTREE")  # SGLang 0.5.16
_MAX_DIVERGENCES = 16  # of one prompt; more near-ties than that are no rounding


def record(engine: Engine, settings: dict[str, Any], timeout: float) -> list[dict[str, Any]]:
    """Returns the references of ``settings['prompts']``, asked of the engine that serves now.

    A reference holds the prompt, its token ids, and for each generated position the token and the best
    (token, log-probability) pairs, best first; ``top`` is None where the engine tells no log-probabilities.
    """
    told = engine.get_json("/server_info", timeout).get("speculative_algorithm") not in _NO_LOGPROBS
    one = _record if told else _record_tokens
    with ThreadPoolExecutor(settings["concurrency"]) as pool:
        return list(pool.map(lambda p: one(engine, p, settings["tokens"], timeout), settings["prompts"]))


def _record(engine: Engine, prompt: str, tokens: int, timeout: float) -> dict[str, Any]:
    answer = engine.post(
        "/generate",
        {
            "text": prompt,
            "sampling_params": _greedy(tokens),
            "return_logprob": True,
            "logprob_start_len": 0,
            "top_logprobs_num": TOP,
        },
        timeout,
    )
    meta = answer["meta_info"]
    return {
        "prompt": prompt,
        "input_ids": [token for _, token, *_ in meta["input_token_logprobs"]],
        "tokens": [token for _, token, *_ in meta["output_token_logprobs"]],
        "top": [[[token, value] for value, token, *_ in position] for position in meta["output_top_logprobs"]],
    }


def _record_tokens(engine: Engine, prompt: str, tokens: int, timeout: float) -> dict[str, Any]:
    # /tokenize cannot answer where the tokenizer has no length of its own: its place-holder has more than 64 bits
    body = {"text": prompt, "sampling_params": _greedy(tokens), "return_prompt_token_ids": True}
    answer = engine.post("/generate", body, timeout)
    ids, got = answer.get("prompt_token_ids"), answer.get("output_ids") or []
    if not ids:
        raise GateFailed("the engine does not tell the token ids of a prompt", "SGLang 0.5.16 does")
    if len(got) != tokens:
        raise GateFailed(f"{len(got)} tokens came back, {tokens} were asked for", f"prompt {prompt!r}")
    return {"prompt": prompt, "input_ids": ids, "tokens": got, "top": None}


def lossless(
    engine: Engine, references: list[dict[str, Any]], settings: dict[str, Any], timeout: float
) -> dict[str, Any]:
    """Judges the engine against the references; raises GateFailed at the first token that is no near-tie."""
    with ThreadPoolExecutor(settings["concurrency"]) as pool:
        judged = list(pool.map(lambda r: judge(engine, r, settings, timeout), references))
    return {
        "prompts": len(judged),
        "tokens": sum(len(r["tokens"]) for r in references),
        "near_ties": [tie for ties in judged for tie in ties],
        "tolerance_nats": settings["tolerance"],
        "by_tokens_alone": sum(r["top"] is None for r in references),
    }


def judge(engine: Engine, reference: dict[str, Any], settings: dict[str, Any], timeout: float) -> list[dict[str, Any]]:
    """Compares one prompt; returns its near-ties.

    ``tolerance`` of the settings is in nats; ``max_divergent``, where log-probabilities are not known, a share of the
    prompt's tokens, one at least.
    """
    ties: list[dict[str, Any]] = []
    at, tokens = 0, reference["tokens"]
    most = _MAX_DIVERGENCES
    if reference["top"] is None:
        most = math.ceil(settings["max_divergent"] * len(tokens))
    while at < len(tokens):
        body = {
            "input_ids": reference["input_ids"] + tokens[:at],
            "sampling_params": _greedy(len(tokens) - at),
        }
        got = engine.post("/generate", body, timeout).get("output_ids") or []
        if len(got) != len(tokens) - at:
            raise GateFailed(
                f"{len(got)} tokens came back, {len(tokens) - at} were asked for",
                f"prompt {reference['prompt']!r}",
            )
        at = _first_difference(tokens, got, at)
        if at == len(tokens):
            break
        ties.append(_near_tie(reference, at, got[len(got) - (len(tokens) - at)], settings["tolerance"]))
        if len(ties) > most:
            raise GateFailed(
                "more near-ties than rounding makes",
                f"{len(ties)} of {len(tokens)} tokens in {reference['prompt']!r}, {most} may be",
                evidence={"ties": ties},
            )
        at += 1
    return ties


def _first_difference(tokens: list[int], got: list[int], at: int) -> int:
    for offset, token in enumerate(got):
        if token != tokens[at + offset]:
            return at + offset
    return len(tokens)


def _near_tie(reference: dict[str, Any], at: int, token: int, tolerance: float) -> dict[str, Any]:
    """Returns the evidence of a near-tie; raises GateFailed where it is none."""
    evidence = {
        "prompt": reference["prompt"],
        "position": at,
        "token": token,
        "reference_token": reference["tokens"][at],
        "gap_nats": None,
    }
    if reference["top"] is None:
        return evidence
    top = dict(map(tuple, reference["top"][at]))
    best = max(top.values())
    gap = best - top[token] if token in top else None
    evidence["gap_nats"] = None if gap is None else round(gap, 5)
    if gap is None:
        why = f"known-good has it not among its {len(top)} best at position {at}"
    elif gap > tolerance:
        why = f"known-good has it {gap:.3f} nats below its best at position {at}, allowed are {tolerance:g}"
    else:
        return evidence
    raise GateFailed(f"a wrong token in the answer to {reference['prompt']!r}", why, evidence=evidence)


def _greedy(tokens: int) -> dict[str, Any]:
    return {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
