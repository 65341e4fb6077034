"""Questions to a server on this machine, and how its greedy answers differ from plain decoding's."""

from __future__ import annotations

import json
import threading
import urllib.request
from typing import Any

_ASK = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
QUESTIONS = [
    _ASK.format(text)
    for text in (
        "What is the capital of France?",
        "Write a short story about a robot who learns to paint.",
        "List ten facts about the ocean.",
        "Write a Python function that reverses a list, and explain it.",
        "Count from 1 to 60, separated by commas.",
        "Explain why the sky is blue to a child.",
        "Repeat the word apple forty times.",
        "Translate to French: The weather is nice today and we are going to the beach.",
    )
]


def post(port: int, path: str, body: dict[str, Any], timeout: float = 600) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    return json.load(urllib.request.urlopen(request, timeout=timeout))  # noqa: S310 - http, written here


def generate(port: int, prompt: str | list[int], tokens: int, **more: Any) -> dict[str, Any]:
    """The server's answer to one prompt, greedy; `more` are sampling parameters."""
    params = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True, **more}
    what = {"text": prompt} if isinstance(prompt, str) else {"input_ids": prompt}
    return dict(post(port, "/generate", {**what, "sampling_params": params}))


def together(port: int, prompts: list[Any], tokens: int, **more: Any) -> list[dict[str, Any]]:
    """All prompts at once, so that they meet in batches."""
    answers: list[dict[str, Any]] = [{} for _ in prompts]

    def one(i: int) -> None:
        answers[i] = generate(port, prompts[i], tokens, **more)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def first_difference(a: list[int], b: list[int]) -> int | None:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)


def gap(plain_port: int, prompt: list[int], plain: list[int], other: list[int]) -> tuple[int, float] | None:
    """(place, nats): where two greedy answers part, and how far apart plain decoding holds the two tokens there."""
    place = first_difference(plain, other)
    if place is None:
        return None
    body = {
        "input_ids": prompt + plain[:place],
        "sampling_params": {"temperature": 0, "max_new_tokens": 1, "ignore_eos": True},
        "return_logprob": True,
        "token_ids_logprob": [plain[place], other[place]],
    }
    found = post(plain_port, "/generate", body)["meta_info"]["output_token_ids_logprobs"][0]
    said = {token: logprob for logprob, token, *_ in found}
    return place, round(said[plain[place]] - said[other[place]], 5)
