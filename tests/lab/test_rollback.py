"""Rollback: by the client, by the script on the host, during a trial, and again."""

from __future__ import annotations

import json
import subprocess

import pytest

from .service_host import STATE, ServiceHost, wait_for

pytestmark = pytest.mark.lab

DEPLOY = 3  # the operation after the adoption and the first deploy


def test_rollback_of_a_healthy_known_good_restarts_nothing(served: ServiceHost) -> None:
    pid = served.main_pid("lab-0001.service")
    for _ in range(2):
        ran = served.ddops("rollback")
        assert ran.code == 0
        assert ran.document["outcome"] == "unchanged"
    assert "hint: ddops rollback --to N goes to a release that was promoted earlier" in ran.stderr
    assert served.main_pid("lab-0001.service") == pid
    assert served.pointer("known-good") == 1


def test_rollback_ends_a_trial_and_a_second_one_changes_nothing(served: ServiceHost) -> None:
    served.script(w13={"load_s": 60})
    client = served.start_deploy(12)
    wait_for(lambda: served.starts("lab-0002.service"), 20, "the trial loads")

    ran = served.ddops("rollback")
    assert ran.code == 0, ran.stderr
    assert client.wait(120) == 3
    assert served.active("lab-0002.service") == "inactive"
    pid = served.main_pid("lab-0001.service")
    again = served.ddops("rollback")
    assert again.code == 0
    assert served.main_pid("lab-0001.service") == pid
    assert served.ask() == "Paris"


def test_rollback_goes_further_back_only_when_told(served: ServiceHost) -> None:
    assert served.deploy(12).code == 0
    assert served.boots() == "lab-0002.service"

    ran = served.ddops("rollback", "--to", "1")
    assert ran.code == 0, ran.stderr
    assert served.boots() == "lab-0001.service"
    assert served.pointer("known-good") == served.pointer("live") == 1
    assert served.active("lab-0002.service") == "inactive"
    assert served.ask() == "Paris"

    ran = served.ddops("rollback", "--to", "0")
    assert ran.code == 0, ran.stderr
    assert served.boots() == "sglang.service"
    assert served.main_pid("sglang.service") > 0
    assert served.active("lab-front.socket") == "inactive"
    assert served.ask() == "Paris"


def test_rollback_starts_a_known_good_that_is_down(served: ServiceHost) -> None:
    served.bring_down("lab-0001.service")
    ran = served.ddops("rollback")
    assert ran.code == 0, ran.stderr
    assert served.ask() == "Paris"


def test_rollback_exits_0_only_after_a_right_answer(served: ServiceHost) -> None:
    served.script(w9={"wrong": True})
    served.bring_down("lab-0001.service")

    ran = served.ddops("rollback")
    assert ran.code == 4
    assert ran.document["outcome"] == "rollback-failed"
    assert served.ask() is None, "the front opened to a wrong known-good"

    served.script(w9={})
    ran = served.ddops("rollback")
    assert ran.code == 0, ran.stderr
    assert served.ask() == "Paris"


def test_a_damaged_release_is_refused_before_anything_stops(served: ServiceHost) -> None:
    assert served.deploy(12).code == 0
    pid = served.main_pid("lab-0002.service")
    served.on("sh", "-c", f"echo '# edited' >> {STATE}/releases/0001/lab-0001.service")

    ran = served.ddops("rollback", "--to", "1")
    assert ran.code == 5
    assert "not whole" in ran.document["reason"]["what"]
    assert served.main_pid("lab-0002.service") == pid


def test_the_script_on_the_host_needs_no_client(served: ServiceHost) -> None:
    served.bring_down("lab-0001.service")

    done = served.lab.ssh(served.name, f"{STATE}/rollback", seconds=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "rolled-back"
    assert served.ask() == "Paris"


def test_the_script_works_while_the_supervisor_cannot(served: ServiceHost) -> None:
    served.on("systemctl", "mask", "--runtime", "--now", "ddops-supervisor@lab.service")
    served.bring_down("lab-0001.service")

    done = served.lab.ssh(served.name, f"{STATE}/rollback", seconds=60)
    assert done.returncode == 0, done.stderr
    assert served.ask() == "Paris"


def test_a_killed_supervisor_takes_the_operation_up_again(served: ServiceHost) -> None:
    served.script(w13={"load_s": 3})
    client = served.start_deploy(12)
    wait_for(lambda: served.began("load", DEPLOY), 20, "the trial loads")
    served.on("systemctl", "kill", "-s", "KILL", "ddops-supervisor@lab.service")

    assert client.wait(120) == 0
    assert served.starts("lab-0002.service") == 1
    assert served.boots() == "lab-0002.service"
    assert sum(e["event"] == "taken-up" for e in served.steps(DEPLOY)) == 2


def test_no_wait_has_a_code_of_its_own(served: ServiceHost) -> None:
    client = subprocess.run(
        [*served.argv("rollback", "--no-wait"), "--json"],
        env=served.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert client.returncode == 10
    operation = json.loads(client.stdout)["operation"]
    wait_for(lambda: served.outcome(operation), 20, "the host has finished alone")


def test_a_known_good_that_still_loads_is_not_started_again(served: ServiceHost) -> None:
    served.script(w9={"load_s": 6})
    served.lab.crash(served.name)
    served.lab.start(served.name)
    wait_for(lambda: served.active("lab-0001.service") == "active", 20, "known-good was started by the boot")
    pid = served.main_pid("lab-0001.service")

    ran = served.ddops("rollback")
    assert ran.code == 0, ran
    assert served.main_pid("lab-0001.service") == pid
    assert served.ask() == "Paris"


def test_a_rollback_that_comes_too_late_says_so(served: ServiceHost) -> None:
    """The trial was promoted meanwhile: what the operator asked for did not happen."""
    client = served.start_deploy(12)
    wait_for(lambda: served.began("promote", DEPLOY), 30, "the promotion begins")
    ran = served.ddops("rollback")
    assert client.wait(120) == 0
    assert served.boots() == "lab-0002.service"
    assert (ran.code, ran.document["outcome"]) in [(5, "promoted"), (0, "unchanged")]
