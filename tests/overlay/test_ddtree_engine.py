"""DDTREE inside the real SGLang on the CPU, every step audited, against plain decoding.

The drafter is planted (planted/planted_drafter.py): paths of every length, through every sibling, are accepted.
DDOPS_ENGINE names the file that `ddops lab engine --json` writes; the Makefile sets it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sglang", reason="SGLang is not installed here: run with the engine's Python (see conftest)")
ENGINE = os.environ.get("DDOPS_ENGINE")
if not ENGINE:
    pytest.skip("DDOPS_ENGINE is not set: make overlay does it", allow_module_level=True)

import engine  # noqa: E402

TOKENS = 40
BUDGET = 12
QUESTIONS = ["What is the capital of France?", "Count from 1 to 20, separated by commas.", "Why is the sky blue?"]


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[engine.Server, list[list[int]], list[list[int]]]]:
    """A DDTREE server, the prompts, and what plain decoding says to them."""
    from transformers import AutoTokenizer

    root = tmp_path_factory.mktemp("engine")
    model = json.loads(Path(ENGINE or "").read_text())["binds"][1][0]
    drafter = engine.write_drafter(root / "drafter", json.loads((Path(model) / "config.json").read_text()))
    python_path = engine.folder_for_python(root / "python")
    texts = root / "texts.json"
    plain = engine.Server(root / "plain.log", model, python_path, {})
    tree = engine.Server(
        root / "tree.log",
        model,
        python_path,
        {"release": "lab-0007", "ddtree": {"budget": BUDGET, "audit": True}},
        *("--speculative-algorithm", "DDTREE", "--speculative-draft-model-path", str(drafter)),
        PLANTED_TEXTS=str(texts),
    )
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        prompts = [tokenizer.encode(f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n") for q in QUESTIONS]
        plain.wait(300)
        with ThreadPoolExecutor() as pool:
            asked = [pool.submit(plain.generate, p, max_new_tokens=TOKENS + 8, ignore_eos=True) for p in prompts]
            expected = [list(future.result()["output_ids"]) for future in asked]
        plain.stop()
        texts.write_text(json.dumps([p + a for p, a in zip(prompts, expected, strict=True)]))
        tree.wait(300)
        yield tree, prompts, expected
    finally:
        plain.stop()
        tree.stop()


Served = tuple[engine.Server, list[list[int]], list[list[int]]]


def test_answers_are_plain_decodings_and_more_than_one_token_is_accepted_a_step(served: Served) -> None:
    tree, prompts, expected = served
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(tree.generate, p, max_new_tokens=TOKENS, ignore_eos=True) for p in prompts]
        answers = [future.result() for future in asked]
    # fp32 on one machine: not one token differed when this was written, and a wrong tree differs within a few
    assert [list(answer["output_ids"]) for answer in answers] == [text[:TOKENS] for text in expected]
    steps = sum(answer["meta_info"]["spec_verify_ct"] for answer in answers)
    assert len(prompts) * TOKENS / steps > 1.5
    assert "is broken" not in tree.text()


def test_a_stop_token_and_a_limit_inside_a_path_end_it_there(served: Served) -> None:
    tree, prompts, expected = served
    for new in (1, 2, 3, 5, 11):
        answer = tree.generate(prompts[0], max_new_tokens=new, ignore_eos=True)
        assert list(answer["output_ids"]) == expected[0][:new]
    stop = expected[1][6]
    answer = tree.generate(prompts[1], max_new_tokens=TOKENS, stop_token_ids=[stop])
    assert list(answer["output_ids"]) == expected[1][: expected[1].index(stop) + 1]
    # what a cut path left behind is not seen by the next request of the same prompt
    answer = tree.generate(prompts[1], max_new_tokens=TOKENS, ignore_eos=True)
    assert list(answer["output_ids"]) == expected[1][:TOKENS]


def test_the_audit_at_start_up_stands_in_the_journal(served: Served) -> None:
    tree, _, _ = served
    audits = [report for report in tree.reports() if "ddtree" in report]
    assert len(audits) == 1
    report: dict[str, Any] = audits[0]
    assert (report["process"], report["release"], report["ok"]) == ("scheduler", "lab-0007", True)
    assert (report["ddtree"]["width"], report["ddtree"]["block"], report["ddtree"]["graphs"]) == (BUDGET + 1, 8, False)
    assert set(report["ddtree"]["batches"]) == {"1", "2"}
    for found in report["ddtree"]["batches"].values():
        assert found["leak"] == 0.0
        assert found["effect"] > 0.1
        assert found["root"] < 1e-4
