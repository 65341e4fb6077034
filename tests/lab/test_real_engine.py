"""The main job with the real SGLang: adopted, promoted, and back on budget 8 after a real crash and real garbage.

The tests of this module are one story on one host, in the order they stand here.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from .service_host import STATE, ServiceHost, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.engine]

GARBAGE_DEPLOY = 4


def test_the_hand_started_unit_is_adopted_as_it_runs(real: ServiceHost) -> None:
    pid = real.main_pid("sglang.service")
    text = real.file("/etc/systemd/system/sglang.service")
    ran = real.ddops("adopt", "sglang.service", "--profile", "lab")

    assert ran.code == 0, ran.stderr
    assert real.main_pid("sglang.service") == pid
    assert real.file("/etc/systemd/system/sglang.service") == text
    assert real.boots() == "sglang.service"
    assert real.pointer("known-good") == 0


def test_budget_8_passes_its_gates_and_is_promoted(real: ServiceHost) -> None:
    ran = real.ddops("deploy", "lab", "--budget", "8", "--soak", "5s")

    assert ran.code == 0, ran.stderr
    evidence = {v["gate"]: v["evidence"] for v in ran.document["verdicts"]}
    assert evidence["ready"]["effective"]["speculative_num_draft_tokens"] == 9
    assert evidence["lossless"]["tokens"] == 144
    assert evidence["acceptance"]["accept_length"]["warm"] > 1.05
    assert real.boots() == "lab-0001.service"
    assert "Paris" in (real.ask("France") or "")
    reports = [line for line in real.lines("lab-0001.service") if line.startswith('{"ddops_overlay"')]
    assert {'"scheduler"' in r or '"main"' in r or '"detokenizer"' in r for r in reports} == {True}
    assert len(reports) == 4, "the scheduler has a second one: what DDTREE found at its start"
    assert '"leak":0.0' in reports[-1]


def test_a_real_illegal_access_is_found_and_rolled_back(real: ServiceHost) -> None:
    ran = real.ddops(
        *("deploy", "lab", "--budget", "12", "--soak", "60s", "--drill", "illegal-access", "--drill-after", "150")
    )

    assert ran.code == 3, ran.stderr
    assert ran.document["faults"][0]["rule"] == "illegal-memory-access"
    lines = real.lines("lab-0002.service")
    assert any("Scheduler hit an exception: Traceback" in line for line in lines)
    assert any("CUDA error: an illegal memory access was encountered" in line for line in lines)
    assert any("sigquit" in line.lower() for line in lines)
    started = next(e for e in real.steps(3) if e["event"] == "started" and e["unit"] == "lab-0002.service")
    fault = next(e for e in real.journal("lab-0002.service") if "illegal memory access" in str(e["MESSAGE"]))
    assert int(fault["_PID"]) != started["main_pid"], "the scheduler is a process of its own"
    assert fault["_SYSTEMD_INVOCATION_ID"] == started["invocation"]
    assert real.starts("lab-0002.service") == 1
    assert real.starts("lab-0001.service") == 2
    assert real.boots() == "lab-0001.service"
    assert "Paris" in (real.ask("France") or "")


def test_garbage_never_reaches_a_user_though_the_client_is_dead(real: ServiceHost) -> None:
    """Ten short requests a second at the public port through the whole failed deploy."""
    asked: list[Future[str | None]] = []
    over = threading.Event()

    def users(pool: ThreadPoolExecutor) -> None:
        while not over.wait(0.1):
            asked.append(pool.submit(real.complete, "The capital of France is", 2))

    # behind what DDTREE asks itself at its start, which would find it
    drill = ("--drill", "garbage", "--drill-after", "60")
    client = real.start("deploy", "lab", "--budget", "12", "--soak", "60s", *drill)
    with ThreadPoolExecutor(200) as pool:
        crowd = threading.Thread(target=users, args=(pool,))
        crowd.start()
        try:
            wait_for(lambda: real.starts("lab-0003.service"), 90, "the trial has started")
            client.kill()
            outcome = wait_for(lambda: real.outcome(GARBAGE_DEPLOY), 180, "the host went back alone")
            served_again = len(asked)
            wait_for(lambda: len(asked) > served_again + 30, 30, "users go on asking known-good")
        finally:
            over.set()
            crowd.join()
    answers = [one.result() for one in asked]

    assert outcome["outcome"] == "rolled-back"
    # whichever is first: a gate reads the answer, or the watch sees that no draft is accepted any more
    found = {f["rule"] for f in outcome["faults"]} or {outcome["reason"]["code"]}
    assert found <= {"gate-failed", "accept-collapse"}
    assert {answer for answer in answers if answer is not None} == {" Paris."}
    assert answers[0] == answers[-1] == " Paris."
    assert None in answers, "the port was never closed"
    assert real.active("lab-0003.service") == "inactive"


def test_status_and_history_tell_the_story(real: ServiceHost) -> None:
    status = real.ddops("status")
    assert status.code == 0
    assert (status.document["live"]["budget"], status.document["front"]) == (8, "open")
    history = real.ddops("history").document["operations"]
    assert [(o["kind"], o["outcome"]) for o in history] == [
        ("adopt", "adopted"),
        ("deploy", "promoted"),
        ("deploy", "rolled-back"),
        ("deploy", "rolled-back"),
    ]
    assert history[2]["release"]["drill"]["name"] == "illegal-access"


def test_the_environment_reached_the_engine_as_it_was_rendered(real: ServiceHost) -> None:
    rendered = real.file(f"{STATE}/releases/0001/environment") or ""
    process = real.on("cat", f"/proc/{real.main_pid('lab-0001.service')}/environ").split("\0")
    assert f"PYTHONPATH={STATE}/releases/0001/overlay" in process
    settings = '{"ddtree": {"budget": 8, "topk": 8}, "drill": null, "platform": "cpu", "release": "lab-0001"}'
    assert f"DDOPS_OVERLAY={settings}" in process
    assert 'DDOPS_OVERLAY="{\\"ddtree\\"' in rendered
