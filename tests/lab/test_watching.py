"""After promotion: a fault is acted on once, by the policy, with brakes, and somebody is told."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from ddops import resources

from .service_host import STATE, ServiceHost, wait_for

pytestmark = pytest.mark.lab

SUPERVISOR = "ddops-supervisor@lab.service"


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


# what the engine prints of a request, and of its steps
NEW = ("[2026-11-29 12:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 9, #running-req: 0, #queue-req: 0",)
LINE = "[2026-11-29 12:00:00 TP0] Decode batch, #running-req: 1, accept len: {:.2f}, cpu graph: False, #queue-req: 0"


def log(served: ServiceHost, *lines: str) -> None:
    """Has the live engine print lines."""
    order(served, "log\n" + "\n".join(lines))


def incidents(served: ServiceHost) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (served.file(f"{STATE}/incidents.jsonl") or "").splitlines()]


def told(served: ServiceHost) -> list[dict[str, Any]]:
    """What the site's command was given."""
    return [json.loads(line) for line in (served.file("/run/told") or "").splitlines()]


def seen(served: ServiceHost) -> dict[str, Any]:
    """What the supervisor has noted of the engine under watch."""
    return json.loads(served.file("/run/ddops/lab/seen") or "{}")  # type: ignore[no-any-return]


def has_looked(served: ServiceHost) -> None:
    """Waits until the supervisor has gone through its rounds: each begins with a word to systemd."""

    def round_of() -> str:
        return served.show(SUPERVISOR, "WatchdogTimestampMonotonic")["WatchdogTimestampMonotonic"]

    for _ in range(3):
        before = round_of()
        wait_for(lambda b=before: round_of() != b, 20, "the watch looks")


def order(served: ServiceHost, what: str) -> None:
    """Has the live engine do something, as a user of the public port."""
    body = {"messages": [{"role": "user", "content": f"now: {what}"}]}
    assert httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=60).status_code == 200


DRILL = ("--drill", "illegal-access", "--drill-after", "2000")  # far more steps than gates and soak take


def reach_the_drill(served: ServiceHost) -> None:
    """Has the live engine take more verify steps than its drill waits for, as a user of the public port."""
    body = {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 5000}}
    with contextlib.suppress(httpx.HTTPError):
        httpx.post(f"{served.url}/generate", json=body, timeout=20)


def deploy_with(served: ServiceHost, folder: Path, budget: int, *more: str, answer: float = 30, **policy: Any) -> None:
    """Promotes a release whose profile has another policy, and another deadline for one answer."""
    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    values["watch"].update(policy)
    values["deadlines"]["answer"] = answer
    path = folder / f"own-{budget}.yaml"
    path.write_text(yaml.safe_dump(values))
    served.profile = str(path)
    ran = served.deploy(budget, *more)
    assert ran.code == 0, ran


@pytest.fixture
def watched(adopted: ServiceHost) -> ServiceHost:
    """A host with release 1 as known-good, whose site has a command that is told of incidents."""
    tell(adopted, command=["sh", "-c", "cat >> /run/told; echo >> /run/told"])
    ran = adopted.deploy(8)
    assert ran.code == 0, ran
    return adopted


def tell(host: ServiceHost, **ways: Any) -> None:
    """Sets the site's notify."""
    site = Path(host.environment["DDOPS_SITE"])
    site.write_text(yaml.safe_dump({**yaml.safe_load(site.read_text()), "notify": ways}))


def test_a_drill_restarts_once_and_its_repeat_only_pages(watched: ServiceHost, tmp_path: Path) -> None:
    deploy_with(watched, tmp_path, 12, *DRILL)
    reach_the_drill(watched)
    wait_for(lambda: watched.starts("lab-0002.service") == 2, 20, "the engine is started anew")
    wait_for(lambda: watched.ask() == "Paris", 20, "users are answered again")
    assert wait_for(lambda: watched.outcome(4), 20, "the restart has ended")["outcome"] == "restarted"
    watched.assert_whole(2)

    reach_the_drill(watched)
    second = wait_for(lambda: incidents(watched)[1:], 20, "the second fault is known")[0]
    assert (second["rule"], second["action"]) == ("illegal-memory-access", "page")
    assert second["because"].startswith("the restart of 20")
    wait_for(lambda: len(told(watched)) == 2, 10, "both were told")
    assert [n["action"] for n in told(watched)] == ["restart", "page"]
    assert watched.starts("lab-0002.service") == 2
    assert watched.outcome(5) is None

    assert watched.ddops("rollback").code == 0
    watched.assert_whole(2)


def test_a_repeat_rolls_back_where_the_policy_says_so_and_never_to_a_drill(
    watched: ServiceHost, tmp_path: Path
) -> None:
    deploy_with(watched, tmp_path, 12, *DRILL)
    deploy_with(watched, tmp_path, 13, *DRILL, on_repeat="rollback")
    reach_the_drill(watched)
    assert wait_for(lambda: watched.outcome(5), 30, "the engine was started anew")["outcome"] == "restarted"
    wait_for(lambda: watched.ask() == "Paris", 20, "users are answered again")
    reach_the_drill(watched)
    assert wait_for(lambda: watched.outcome(6), 30, "the host rolled back")["release"]["release"] == 1
    assert [i["action"] for i in incidents(watched)] == ["restart", "rollback"]
    watched.assert_whole(1)


def test_a_scheduler_that_is_gone_under_a_living_parent_is_found(watched: ServiceHost) -> None:
    order(watched, "lose the scheduler")
    wait_for(lambda: watched.outcome(3), 40, "the engine was started anew")
    assert [i["rule"] for i in incidents(watched)] == ["scheduler-gone"]
    assert watched.starts("lab-0001.service") == 2
    watched.assert_whole(1)


def test_a_scheduler_that_is_lost_while_a_deploy_ends_is_found(adopted: ServiceHost) -> None:
    """Between the last look of the operation and the first one of the watch after it."""
    client = adopted.start_deploy(8)
    held = adopted.at_step("STOP", 2, "promote")
    assert held.wait(120) == 0
    order(adopted, "lose the scheduler")
    adopted.on("systemctl", "kill", "-s", "CONT", SUPERVISOR)
    assert adopted.finish(client)[0] == 0
    wait_for(lambda: adopted.outcome(3), 40, "the engine was started anew")
    assert [i["rule"] for i in incidents(adopted)] == ["scheduler-gone"]
    adopted.assert_whole(1)


def test_a_scheduler_that_is_lost_while_no_supervisor_lives_is_found(watched: ServiceHost) -> None:
    """A supervisor that starts with the host sees the engine before it has schedulers."""
    watched.script(w9={"load_s": 12})
    watched.lab.reboot(watched.name)
    first = wait_for(lambda: seen(watched), 60, "the loading engine is watched")
    assert first["schedulers"] == []
    wait_for(lambda: seen(watched)["schedulers"], 60, "its scheduler is known")
    watched.on("systemctl", "stop", SUPERVISOR)
    order(watched, "lose the scheduler")
    watched.on("systemctl", "start", SUPERVISOR)
    wait_for(lambda: watched.outcome(3), 40, "the engine was started anew")
    assert [i["rule"] for i in incidents(watched)] == ["scheduler-gone"]
    watched.assert_whole(1)


def test_an_exit_0_in_the_night_is_paged(watched: ServiceHost) -> None:
    """systemd calls it a success, and nothing tells whether it would happen again."""
    order(watched, "exit 0")
    wait_for(lambda: told(watched), 20, "somebody is told")
    assert {i["class"] for i in incidents(watched)} == {"service_exit_success_but_dead"}
    assert {n["action"] for n in told(watched)} == {"page"}
    assert watched.starts("lab-0001.service") == 1
    assert watched.ddops("status").code == 9


def test_a_rollback_joins_the_restart_that_is_under_way(watched: ServiceHost) -> None:
    held = watched.at_step("STOP", 3, "return")
    watched.on("systemctl", "kill", "-s", "KILL", "lab-0001.service")
    assert held.wait(120) == 0
    ran = watched.ddops("rollback", "--no-wait")
    assert (ran.code, ran.document["operation"], ran.document["joined"]) == (10, 3, "restart by the supervisor")

    watched.on("systemctl", "kill", "-s", "CONT", SUPERVISOR)
    assert wait_for(lambda: watched.outcome(3), 30, "the restart has ended")["outcome"] == "restarted"
    assert watched.outcome(4) is None
    assert watched.starts("lab-0001.service") == 2
    watched.assert_whole(1)


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


def test_a_rollback_never_returns_to_a_release_that_it_left(watched: ServiceHost, tmp_path: Path) -> None:
    deploy_with(watched, tmp_path, 12, *DRILL, on_fault="rollback")
    reach_the_drill(watched)
    wait_for(lambda: watched.outcome(4), 30, "the host rolled back")
    watched.assert_whole(1)
    deploy_with(watched, tmp_path, 13, on_fault="rollback")
    order(watched, "fault")
    assert wait_for(lambda: watched.outcome(6), 30, "the host rolled back")["release"]["release"] == 1
    assert incidents(watched)[-1]["action"] == "rollback"
    watched.assert_whole(1)


def test_a_pause_stops_action_and_deploys_until_it_is_ended(watched: ServiceHost) -> None:
    assert watched.ddops("pause", "--reason", "moving racks").code == 0
    refused = watched.deploy(12)
    assert (refused.code, refused.document["reason"]["why"]) == (5, "moving racks")
    longer = watched.ddops("pause", "--reason", "racks still moving", "--for", "1h")
    assert longer.document["replaces"]["reason"] == "moving racks"
    assert re.search(r"it replaces the pause by \S+ since \S+: moving racks", longer.stderr)
    order(watched, "fault")
    wait_for(lambda: told(watched), 20, "it is told all the same")
    assert incidents(watched)[0]["action"] == "page"
    assert "paused" in incidents(watched)[0]["because"]
    assert watched.starts("lab-0001.service") == 1
    assert watched.ddops("status").document["paused"]["reason"] == "racks still moving"

    assert watched.ddops("resume").code == 0
    assert watched.ddops("resume").code == 5
    assert watched.ddops("rollback").code == 0
    watched.assert_whole(1)


def test_the_cap_ends_automatic_action(watched: ServiceHost, tmp_path: Path) -> None:
    deploy_with(watched, tmp_path, 12, cap=1, repeat_within=0)
    order(watched, "exit 1")
    wait_for(lambda: watched.outcome(4), 30, "the engine was started anew")
    order(watched, "exit 1")
    last = wait_for(lambda: incidents(watched)[1:], 20, "the second one is known")[0]
    assert (last["action"], last["because"]) == ("page", "1 automatic actions in a day, the cap is 1")
    assert watched.active("lab-0002.service") == "failed"
    assert watched.starts("lab-0002.service") == 2


def test_the_policy_page_does_nothing_but_tell_once(watched: ServiceHost, tmp_path: Path) -> None:
    deploy_with(watched, tmp_path, 12, *DRILL, on_fault="page")
    reach_the_drill(watched)
    assert wait_for(lambda: told(watched), 20, "somebody is told")[0]["action"] == "page"

    # a supervisor that was killed before it noted how far it has read
    watched.on("systemctl", "stop", SUPERVISOR)
    watched.on("rm", "-f", "/run/ddops/lab/seen")
    watched.on("systemctl", "start", SUPERVISOR)
    wait_for(lambda: seen(watched).get("cursor"), 20, "the next one has read it all again")
    assert [i["action"] for i in incidents(watched)] == ["page"]
    assert len(told(watched)) == 1
    assert watched.outcome(4) is None
    assert watched.starts("lab-0002.service") == 1


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
