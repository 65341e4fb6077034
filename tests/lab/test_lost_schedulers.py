"""A scheduler that is gone under a living parent, in the watch and between two watches."""

from __future__ import annotations

import pytest

from .service_host import ServiceHost, wait_for
from .watching import SUPERVISOR, incidents, order, seen

pytestmark = pytest.mark.lab


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
