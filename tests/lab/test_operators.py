"""Operators: two at once, one who is gone, one who presses Ctrl-C, one who never confirms."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from typing import Any

import pytest

from .service_host import STATE, ServiceHost, wait_for

pytestmark = pytest.mark.lab

DEPLOY = 3  # the operation after the adoption and the first deploy
SUPERVISOR = "ddops-supervisor@lab.service"


def test_of_two_deploys_at_once_one_is_told_who_was_first(served: ServiceHost) -> None:
    served.script(w13={"load_s": 1}, w17={"load_s": 1})
    together = [served.start_deploy(budget) for budget in (12, 16)]
    ended = [served.finish(client) for client in together]

    assert sorted(code for code, _ in ended) == [0, 7], ended
    loser = next(document for code, document in ended if code == 7)
    assert loser["error"]["what"].startswith(("lab is locked", "this plan is for release")), loser
    winner = next(document for code, document in ended if code == 0)
    assert served.outcome(DEPLOY + 1) is None
    served.assert_whole(winner["release"]["release"])


def test_who_says_no_at_the_prompt_has_changed_nothing(served: ServiceHost) -> None:
    ours, theirs = pty.openpty()
    client = subprocess.Popen(
        [*served.argv("deploy", "lab", "--budget", "12"), "--json"],
        env=served.environment, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while b"deploy? [y/N]" not in shown:
        shown += os.read(ours, 4096)
    assert b"budget 12" in shown, "it is asked below the plan"
    os.write(ours, b"n\n")
    output, _ = client.communicate(timeout=30)
    os.close(ours)
    document = json.loads(output)
    assert (client.returncode, document["outcome"], document["plan"]["budget"]) == (0, "declined", 12)
    assert served.file(f"{STATE}/operations/{DEPLOY:06d}.request.json") is None
    served.assert_whole(1)


def test_a_deploy_during_a_rollback_is_refused_and_leaves_it_alone(served: ServiceHost) -> None:
    served.script(w9={"load_s": 6})
    served.bring_down("lab-0001.service")
    client = served.start("rollback")
    wait_for(lambda: served.began("return", DEPLOY), 20, "the rollback brings known-good back")

    ran = served.deploy(12)
    assert (ran.code, ran.document["error"]["why"]) == (7, f"operation {DEPLOY}: rollback")
    assert served.finish(client)[0] == 0
    assert served.outcome(DEPLOY + 1) is None
    served.assert_whole(1)


def test_a_rollback_during_a_soak_with_users_on_the_trial(served: ServiceHost) -> None:
    client = served.start("deploy", "lab", "--budget", "12", "--soak", "120s")
    wait_for(lambda: served.began("soak", DEPLOY), 30, "the soak")
    assert served.ask("Germany") == "Berlin"

    assert served.ddops("rollback").code == 0
    code, document = served.finish(client)
    assert (code, document["reason"]["what"]) == (3, "ended by an operator")
    assert served.starts("lab-0001.service") == 2
    served.assert_whole(1)


def test_an_operation_without_its_supervisor_is_told_and_ended(served: ServiceHost) -> None:
    """Somebody stopped the supervisor in mid-load: nobody holds the lock, and nobody will go on."""
    served.script(w13={"load_s": 60})
    client = served.start_deploy(12)
    wait_for(lambda: served.starts("lab-0002.service"), 20, "the trial loads")
    served.on("systemctl", "stop", SUPERVISOR)

    ran = served.deploy(16)
    assert ran.code == 7
    assert ran.document["error"]["what"].startswith(f"operation {DEPLOY} was left half done")
    assert ran.document["error"]["why"].endswith("at step load")
    assert served.active(SUPERVISOR) == "inactive", "it was started behind the operator's back"
    ran = served.ddops("status")
    assert (ran.code, ran.document["under_way"]["operation"]) == (9, DEPLOY)
    assert "the live release is not known-good" in ran.document["ails"]
    assert served.ddops("eval", "smoke").code == 7
    told = subprocess.run(served.argv("status"), env=served.environment, capture_output=True, text=True, check=False)
    assert "supervisor  inactive: nobody watches the service" in told.stdout
    assert "because     a deploy is under way; " in told.stdout
    assert "hint: ddops rollback --host stub --service lab" in told.stderr, "it does not go on by itself"

    assert served.ddops("rollback").code == 0
    assert served.finish(client)[0] == 3
    served.assert_whole(1)
    served.script()
    assert served.deploy(16).code == 0


@pytest.mark.parametrize("twice", [False, True])
def test_an_interrupt_at_any_moment_says_what_goes_on_at_the_host(served: ServiceHost, twice: bool) -> None:
    served.script(w13={"load_s": 60}, w9={"load_s": 2})

    def interrupted(client: subprocess.Popen[str]) -> dict[str, Any]:
        client.send_signal(signal.SIGINT)
        if twice:
            client.send_signal(signal.SIGINT)
        code, document = served.finish(client, seconds=5)
        assert code == 130
        error: dict[str, Any] = document["error"]
        return error

    served.lab.blackhole(served.name)
    client = served.start_deploy(12)
    wait_for(lambda: connecting(client.pid), 20, "the client waits for the host")
    assert interrupted(client)["why"] == "nothing was changed at a host"
    served.lab.heal(served.name)
    assert served.outcome(DEPLOY) is None
    assert served.file(f"{STATE}/operations/{DEPLOY:06d}.request.json") is None

    client = served.start_deploy(12)
    wait_for(lambda: served.starts("lab-0002.service"), 20, "the trial loads")
    told = interrupted(client)
    assert told["what"] == f"interrupted: nobody watches operation {DEPLOY} any more"
    assert "goes on at stub, at load" in told["why"]
    assert served.active("lab-0002.service") == "active"

    client = served.start("rollback")
    wait_for(lambda: served.began("return", DEPLOY), 20, "the way back")
    assert "goes on at stub" in interrupted(client)["why"]
    assert wait_for(lambda: served.outcome(DEPLOY), 30, "the host ended alone")["outcome"] == "rolled-back"
    served.assert_whole(1)


def connecting(pid: int) -> bool:
    """Says whether a process waits for a TCP connection to be set up."""
    output = subprocess.run(["ss", "-tnpH", "state", "syn-sent"], capture_output=True, text=True, check=True).stdout
    return f"pid={pid}," in output


def test_a_confirmation_that_never_comes_outlives_no_restart(served: ServiceHost) -> None:
    """The supervisor is killed while it waits: what is left of the deadline is less than the whole."""
    steps = f"{STATE}/operations/{DEPLOY:06d}.jsonl"
    killer = served.at_moment("KILL", 1500, "step", steps, "confirm")
    ran = served.deploy(12, "--confirm", "6s")

    assert killer.wait(120) == 0
    assert ran.code == 3
    told = re.fullmatch(r"nobody confirmed the release: not within ([0-9.]+) s", ran.document["reason"]["what"])
    assert told
    assert float(told[1]) < 5
    assert sum(e["event"] == "taken-up" for e in served.steps(DEPLOY)) == 2
    served.assert_whole(1)
