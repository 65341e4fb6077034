"""A bench against a scripted endpoint: what was sent, and the figures that do not depend on the clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddops.agent.figures import Slo
from ddops.bench.load import Load, arrivals, bodies
from ddops.bench.measure import Measured, measure
from ddops.errors import Unreachable, UsageError

from .endpoint import Script, serving

PARTS = (1, *range(3, 48, 2), 48)


def bench(script: Script, load: Load, repeats: int = 1, slo: Slo | None = None) -> Measured:
    with serving(script) as url:
        return measure(url, load, slo or Slo(), repeats, lambda _: None)


def test_a_closed_loop_counts_what_came() -> None:
    script = Script(PARTS, steps=len(PARTS) - 1)
    found = bench(script, Load(requests=6, tokens=48, concurrency=2, warmup=1), repeats=2, slo=Slo(latency=1e9))
    assert len(script.asked) == 2 * (1 + 6)
    for run in found.runs:
        assert (run["requests"], run["failed"], run["output_tokens"], run["prompt_tokens"]) == (6, 0, 288, 42)
        assert run["accept_length"] == 2
        assert run["attainment"] == 1
        assert 0 < run["steady_seconds"] <= run["seconds"]
        assert run["tok_s"] * run["seconds"] == pytest.approx(288)
        assert run["goodput"] * run["seconds"] == pytest.approx(6)
        assert 0 <= run["ttft_ms_p50"] <= run["latency_ms_p50"]
    assert (found.failed, found.errors) == (0, {})
    assert script.connections == 2 * 2, "each of the two streams of a run keeps its connection"


def test_so_many_streams_run_at_a_time() -> None:
    """The endpoint answers nobody until three ask at once."""
    script = Script(PARTS, crowd=3)
    assert bench(script, Load(requests=9, tokens=48, concurrency=3, warmup=0)).failed == 0


def test_an_open_loop_waits_for_no_answer() -> None:
    script = Script(PARTS, crowd=5)
    found = bench(script, Load(requests=5, tokens=48, concurrency=None, rate=1000, warmup=0))
    assert (found.failed, found.runs[0]["output_tokens"]) == (0, 240)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("refuses", '503: {"error": "full"}'),
        ("cut", "incomplete"),
        ("silent", "the stream ended without [DONE]"),
        ("error", "{'message': 'aborted'}"),
        ("garbage", "none of SGLang's"),
        ("too short", "47 tokens came"),
    ],
)
def test_every_way_to_fail_is_counted_and_told(bad: str, told: str) -> None:
    script = Script(PARTS, bad={1: bad})
    found = bench(script, Load(requests=4, tokens=48, concurrency=1, warmup=1), slo=Slo(latency=1e9))
    assert (found.runs[0]["requests"], found.runs[0]["failed"], found.failed) == (4, 1, 1)
    assert found.runs[0]["output_tokens"] == 3 * 48
    assert found.runs[0]["attainment"] == 0.75
    assert [told in error for error in found.errors] == [True]


def test_a_run_without_any_answer_is_no_measurement() -> None:
    with pytest.raises(Unreachable, match="answered none of 2 requests"):
        bench(Script(PARTS, bad={0: "refuses", 1: "refuses"}), Load(requests=2, tokens=48, warmup=0))
    with pytest.raises(Unreachable):
        measure("http://127.0.0.1:9", Load(requests=1, tokens=4, warmup=0), Slo(), 1, lambda _: None)


def test_the_load_follows_from_the_seed_and_runs_differ() -> None:
    load = Load(requests=3, tokens=4, input_tokens=5, seed=7)
    assert bodies(load, 3, 1) == bodies(load, 3, 1) != bodies(load, 3, 2)
    assert all(len(body["input_ids"]) == 5 for body in bodies(load, 3, 1))
    due = arrivals(4, 2000, 7, 1)
    assert due == arrivals(4, 2000, 7, 1) == sorted(due)
    assert due[0] == 0
    assert due[-1] / 1999 == pytest.approx(1 / 4, rel=0.1)
    texts = [body["text"] for body in bodies(Load(requests=9, tokens=4), 9, 1)]
    assert len(set(texts)) == 9, "a prompt that came before is in the cache"


def test_a_flush_comes_before_each_run() -> None:
    script = Script(PARTS)
    bench(script, Load(requests=1, tokens=48, flush=True), repeats=3)
    assert script.flushed == 3


@pytest.mark.parametrize(
    "wrong", [{"rate": 1.0}, {"concurrency": None}, {"concurrency": 9}, {"concurrency": None, "rate": 0.0}]
)
def test_a_load_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Load(**{"requests": 8, "tokens": 4, **wrong})


def ddops(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ddops", "bench", *args], capture_output=True, text=True, check=False)


def test_the_command_prints_figures_and_ends_with_what_is_true(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    prompts.write_text("one\n  \ntwo\n")
    words = ("--requests", "4", "--tokens", "48", "--repeats", "2", "--warmup", "0", "--prompts", str(prompts))
    script = Script(PARTS, steps=len(PARTS) - 1)
    with serving(script) as url:
        done = ddops("--url", url, *words, "--slo", "latency=1e9", "--seed", "3", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["figures"]["output_tokens"] == {"median": 192, "min": 192, "max": 192, "spread": 0}
    assert document["figures"]["accept_length"]["median"] == 2
    assert (document["load"]["seed"], document["exit_code"]) == (3, 0)
    assert {body["text"].split()[-1] for body in script.asked} == {"one", "two"}
    assert "run 2 of 2: 4/4 requests" in done.stderr

    with serving(Script(PARTS, bad={2: "refuses"})) as url:
        done = ddops("--url", url, *words)
    assert done.returncode == 11, done.stderr
    assert "failed 1 of 8" in done.stdout
    assert '1 x 503: {"error": "full"}' in done.stderr
    assert "tok/s over time" in done.stdout


@pytest.mark.parametrize(
    "words",
    [("--url", "http://[::1"), ("--url", "http://127.0.0.1:9", "--host", "a"), ("--url", "http://a", "--rate", "nan")],
)
def test_a_command_that_cannot_be_meant_is_a_mistake_of_usage(words: tuple[str, ...]) -> None:
    done = ddops(*words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_is_not_there_is_unreachable() -> None:
    done = ddops("--url", "http://127.0.0.1:9", "--requests", "1")
    assert done.returncode == 6
    assert "answered none of 1 requests" in done.stderr
    assert "Traceback" not in done.stderr
