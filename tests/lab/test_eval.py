"""``ddops eval`` and ``ddops bench`` against a served host: the suites pass on a sound engine and tell a broken one."""

from __future__ import annotations

from pathlib import Path

import pytest

from .service_host import ServiceHost, unchanged, wait_for

pytestmark = pytest.mark.lab

SOLUTIONS = Path(__file__).parents[1] / "unit/suites/solutions.py"


def test_every_suite_is_put_to_what_serves_and_a_bench_reaches_it_through_the_front(served: ServiceHost) -> None:
    with unchanged(served):
        smoke = served.ddops("eval", "smoke")
        assert (smoke.code, smoke.document["passed"], smoke.document["problems"]) == (0, True, [])
        assert smoke.document["release"]["release"] == 1
        assert smoke.document["evidence"]["asked"] == 16

        first, second = served.ddops("eval", "lossless"), served.ddops("eval", "lossless")
        assert (first.code, first.document["evidence"]["recorded_now"]) == (0, True)
        assert (second.code, second.document["evidence"]["recorded_now"]) == (0, False)
        assert second.document["evidence"]["tokens"] == 144

        load = served.ddops("eval", "load")
        assert load.code == 0, load.document
        assert load.document["evidence"]["waves"] == [1, 4, 8, 2, 1]
        assert (load.document["evidence"]["streams"], load.document["evidence"]["aborted"]) == (48, 16)

        garbage = served.ddops("eval", "garbage")
        assert garbage.code == 0, garbage.document
        assert garbage.document["evidence"]["accept_length"] == 2

        bench = served.ddops("bench", "--requests", "8", "--concurrency", "2", "--tokens", "33", "--repeats", "1")
        assert bench.code == 0, bench.stderr
        assert bench.document["url"] == served.url
        figures = {name: value["median"] for name, value in bench.document["figures"].items()}
        assert (figures["requests"], figures["failed"], figures["output_tokens"]) == (8, 0, 264)
        assert figures["accept_length"] == 2
        assert bench.document["gpus"]["problem"] == "no nvidia-smi on this host"


def test_a_bench_tells_what_the_gpus_of_the_host_did(served: ServiceHost) -> None:
    served.write("/usr/local/bin/nvidia-smi", "#!/bin/sh\necho '412.5, 1100.0, 97, 71'\necho '398.5, 1100.0, 99, 69'\n")
    served.on("chmod", "755", "/usr/local/bin/nvidia-smi")
    bench = served.ddops("bench", "--requests", "4", "--tokens", "33", "--repeats", "1")
    found = bench.document["gpus"]
    assert found["samples"] >= 1
    assert (found["power_w"], found["power_limit_w"]) == (811, 2200)
    assert (found["busy_percent"], found["memory_percent"]) == (98, 70)
    assert found["verdict"].startswith("bandwidth-bound")


def test_a_broken_engine_passes_nothing_and_the_exit_code_says_so(served: ServiceHost) -> None:
    assert served.ddops("pause").code == 0  # else the watch would restart it in the middle
    right = f"```python\n{SOLUTIONS.read_text()}\n```"
    wrong = "```python\ndef expand(text):\n    return text\n```"
    served.script(w9={"wrong_tokens": True, "answers": {"covered(": right, "expand(": wrong}})
    assert served.ddops("eval", "lossless").code == 0, "it is recorded from the sound one, which still runs"
    served.on("systemctl", "restart", "lab-0001.service")
    wait_for(lambda: served.ask() == "Paris", 20, "it answers again")

    lossless = served.ddops("eval", "lossless")
    assert (lossless.code, lossless.document["exit_code"], lossless.document["passed"]) == (11, 11, False)
    assert "a wrong token" in lossless.document["problems"][0]

    coding = served.ddops("eval", "coding")
    assert coding.code == 0, "the lab's thresholds are 0: the score is told"
    evidence = coding.document["evidence"]
    assert (evidence["right"], evidence["of"], evidence["gate"]) == (1, 21, 1)
    verdicts = {j["name"]: j["verdict"] for j in evidence["judged"]}
    assert (verdicts.pop("covered"), verdicts.pop("expand")) == ("right", "wrong")
    assert set(verdicts.values()) == {"no program"}
    assert served.on("systemctl", "list-units", "--all", "--plain", "--no-legend", "ddops-sandbox-*") == ""

    served.script(w9={"wrong": True})
    served.on("systemctl", "restart", "lab-0001.service")
    wait_for(lambda: served.ask() == "!!!!", 20, "it answers with garbage")
    for suite, told in (("smoke", "a wrong answer"), ("garbage", "entropy 0 bits"), ("load", "after 1 at a time")):
        ran = served.ddops("eval", suite)
        assert ran.code == 11, ran.document
        assert any(told in problem for problem in ran.document["problems"]), ran.document["problems"]
    assert any("accept length 1.00" in p for p in served.ddops("eval", "garbage").document["problems"])
