"""After promotion: a fault is found, acted on by the policy, and somebody is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .service_host import STATE, ServiceHost, wait_for
from .watching import LINE, NEW, SUPERVISOR, deploy_with, has_looked, incidents, log, order, seen, tell, told

pytestmark = pytest.mark.lab

# answers 503 once, then keeps what it is sent
HOOK = """
import http.server
class Hook(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_POST(self):
        Hook.asked += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if Hook.asked > 1:
            open("/run/hooked", "wb").write(body)
        self.send_response(200 if Hook.asked > 1 else 503)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 9911), Hook).serve_forever()
"""


def test_an_exit_0_in_the_night_is_paged(watched: ServiceHost) -> None:
    """systemd calls it a success, and nothing tells whether it would happen again."""
    order(watched, "exit 0")
    wait_for(lambda: told(watched), 20, "somebody is told")
    assert {i["class"] for i in incidents(watched)} == {"service_exit_success_but_dead"}
    assert {n["action"] for n in told(watched)} == {"page"}
    assert watched.starts("lab-0001.service") == 1
    assert watched.ddops("status").code == 9


@pytest.mark.parametrize(("script", "rule"), [({"wrong_after": 30}, "wrong-answer"), ({"mute_after": 30}, "no-decode")])
def test_answers_that_are_wrong_or_do_not_come_are_found(
    watched: ServiceHost, tmp_path: Path, script: dict[str, Any], rule: str
) -> None:
    watched.script(w13=script)
    deploy_with(watched, tmp_path, 12, answer=1, ask_every=0.2, on_fault="rollback")
    wait_for(lambda: incidents(watched), 40, "the answers are found out")
    assert incidents(watched)[0]["rule"] == rule
    assert wait_for(lambda: watched.outcome(4), 40, "the host rolled back")["kind"] == "rollback"
    watched.assert_whole(1)


def test_a_collapse_is_paged_and_what_is_asked_about_it_decides(watched: ServiceHost, tmp_path: Path) -> None:
    """The engine is asked at once, though its next question would come in an hour."""
    watched.script(w13={"wrong_after": 40})
    deploy_with(watched, tmp_path, 12, ask_every=3600, on_fault="rollback")

    def questions() -> int:
        return sum("POST /v1/chat" in line for line in watched.lines("lab-0002.service"))

    asked = questions()
    log(watched, *NEW, *[LINE.format(3.1)] * 3, *NEW, *[LINE.format(1.0)] * 40, *NEW, LINE.format(3.1))
    log(watched, *[line for _ in range(9) for line in (*NEW, *[LINE.format(1.0)] * 3)])
    wait_for(lambda: questions() >= asked + 4, 20, "two orders, and two questions at once")
    (first,) = wait_for(lambda: incidents(watched), 10, "the collapse is known")
    assert (first["rule"], first["action"]) == ("accept-collapse", "page")
    assert first["why"].startswith("accept len 1.00 on 22 decode lines in a row of 8 requests")
    assert watched.outcome(4) is None

    log(watched, *NEW, *[LINE.format(3.1)] * 3)
    wait_for(lambda: watched.ask() == "!!!!", 30, "its answers are garbage")
    log(watched, *[line for _ in range(9) for line in (*NEW, *[LINE.format(1.0)] * 3)])
    assert wait_for(lambda: watched.outcome(4), 40, "the host rolled back")["kind"] == "rollback"
    assert [(i["rule"], i["action"]) for i in incidents(watched)[1:]] == [("wrong-answer", "rollback")]
    watched.assert_whole(1)


def test_a_failed_trial_is_told_by_a_webhook_that_fails_at_first(watched: ServiceHost) -> None:
    """Its address is in no record, no journal and no status."""
    watched.write("/run/hook.py", HOOK)
    watched.on("systemd-run", "--unit=hook", "python3", "/run/hook.py")
    watched.write("/etc/hook-address", "http://127.0.0.1:9911/s3cr3t\n")
    tell(watched, command=["/no/such/command"], webhook_url_file="/etc/hook-address")
    watched.script(w13={"wrong": True})
    assert watched.deploy(12).code == 3

    notice = json.loads(wait_for(lambda: watched.file("/run/hooked"), 20, "the webhook took it"))
    assert (notice["outcome"], notice["release"]["release"]) == ("rolled-back", 2)
    assert notice["text"].startswith("lab on stub: deploy: rolled-back; gate smoke")
    left = json.loads(watched.on("sh", "-c", f"cat {STATE}/notices/*.json"))
    assert left["ways"] == {"command": "/no/such/command: FileNotFoundError", "webhook": "delivered"}
    assert watched.on("sh", "-c", f"grep -rl s3cr3t {STATE} || true") == ""
    assert "s3cr3t" not in watched.on("journalctl", "--no-pager", "-o", "cat", "-u", SUPERVISOR)
    watched.assert_whole(1)


def test_an_engine_that_was_stopped_by_hand_stays_stopped(adopted: ServiceHost) -> None:
    """One that does not end of itself, as SGLang does not: for systemd it has failed, and its invocation is known."""
    adopted.script(w9={"stubborn": True})
    assert adopted.deploy(8).code == 0
    adopted.on("systemctl", "stop", "--no-block", "lab-0001.service")
    wait_for(lambda: seen(adopted)["stopping"], 20, "the stop is noted")
    adopted.on("systemctl", "kill", "-s", "KILL", "lab-0001.service")
    wait_for(lambda: adopted.active("lab-0001.service") == "failed", 10, "it has ended")
    refused = adopted.deploy(12)
    assert (refused.code, refused.document["outcome"]) == (4, "refused")
    has_looked(adopted)
    adopted.on("systemctl", "restart", SUPERVISOR)
    has_looked(adopted)
    assert adopted.ddops("status").code == 9
    assert incidents(adopted) == []
    assert adopted.outcome(4) is None
    adopted.on("systemctl", "start", "lab-0001.service")
    wait_for(lambda: adopted.ask() == "Paris", 20, "it serves again")
    order(adopted, "exit 1")
    wait_for(lambda: adopted.outcome(4), 30, "an end of its own is found after that")
    assert len(incidents(adopted)) == 1


def test_what_a_unit_went_through_before_its_adoption_is_past(stub: ServiceHost) -> None:
    log(stub, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
    assert stub.ddops("adopt", "sglang.service").code == 0
    has_looked(stub)
    assert incidents(stub) == []
    assert stub.outcome(2) is None
    order(stub, "lose the scheduler")
    assert wait_for(lambda: stub.outcome(2), 40, "it is watched from then on")["outcome"] == "restarted"
    assert [i["rule"] for i in incidents(stub)] == ["scheduler-gone"]


def test_a_restart_that_turns_out_to_be_impossible_is_told_as_that(stub: ServiceHost) -> None:
    tell(stub, command=["sh", "-c", "cat >> /run/told; echo >> /run/told"])
    assert stub.ddops("adopt", "sglang.service").code == 0
    stub.on("sh", "-c", "echo '# another text' >> /etc/systemd/system/sglang.service")
    order(stub, "lose the scheduler")
    assert wait_for(lambda: stub.outcome(2), 40, "a restart was tried")["outcome"] == "refused"
    wait_for(lambda: len(told(stub)) == 2, 20, "both were told")
    first, second = sorted(told(stub), key=lambda notice: str(notice["time"]))
    assert first["action"] == "restart"
    assert (second["kind"], second["outcome"]) == ("restart", "refused")
    assert "sglang.service" in second["reason"]["why"]


def test_a_fault_while_the_supervisor_was_dead_is_acted_on_once(watched: ServiceHost) -> None:
    watched.on("systemctl", "stop", SUPERVISOR)
    order(watched, "exit 1")
    wait_for(lambda: watched.active("lab-0001.service") == "failed", 10, "the engine has ended")
    watched.on("systemctl", "start", SUPERVISOR)
    wait_for(lambda: watched.outcome(3), 30, "the engine was started anew")
    watched.on("systemctl", "kill", "-s", "KILL", SUPERVISOR)
    wait_for(lambda: watched.show(SUPERVISOR, "NRestarts")["NRestarts"] == "1", 10, "a new life")
    assert watched.ddops("status").code == 0
    assert [i["action"] for i in incidents(watched)] == ["restart"]
    assert watched.starts("lab-0001.service") == 2
    watched.assert_whole(1)
