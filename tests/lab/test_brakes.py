"""What holds automatic action back: repeats, the cap, a pause, the policy, an operation that is under way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .service_host import ServiceHost, wait_for
from .watching import DRILL, SUPERVISOR, deploy_with, incidents, order, reach_the_drill, seen, told

pytestmark = pytest.mark.lab


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
