"""The line from deploy to promotion or back, on a host with a scripted engine."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from ddops import resources

from .service_host import STATE, ServiceHost, wait_for

pytestmark = pytest.mark.lab

GATES = ["ready", "smoke", "lossless", "acceptance", "throughput"]
DEPLOY = 3  # the operation after the adoption and the first deploy


def own_profile(folder: Path, **changes: Any) -> str:
    """Writes the lab profile with other deadlines to a file and returns its path."""
    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    values["deadlines"].update(changes)
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(values))
    return str(path)


def test_a_release_that_passes_is_promoted(adopted: ServiceHost) -> None:
    ran = adopted.deploy(8)

    assert ran.code == 0, ran.stderr
    assert ran.document["outcome"] == "promoted"
    assert [v["gate"] for v in ran.document["verdicts"] if v["passed"]] == GATES
    assert adopted.boots() == "lab-0001.service"
    assert adopted.pointer("known-good") == adopted.pointer("live") == 1
    unit = adopted.show("lab-0001.service", "FragmentPath", "NeedDaemonReload", "MainPID", "Restart")
    assert unit["FragmentPath"] == "/etc/systemd/system/lab-0001.service"
    assert unit["NeedDaemonReload"] == "no"
    assert unit["Restart"] == "no"
    assert adopted.starts("lab-0001.service") == 1
    assert adopted.active("sglang.service") == "inactive"
    assert adopted.ask("France") == "Paris"
    assert adopted.ask("Germany") == "Berlin"


def test_the_engine_is_not_root_and_listens_on_loopback_alone(served: ServiceHost) -> None:
    pid = served.main_pid("lab-0001.service")
    uid = int(served.on("stat", "-c", "%u", f"/proc/{pid}"))
    assert uid > 0
    listening = [line for line in served.on("ss", "-ltnH").splitlines() if ":31001 " in line]
    assert [line.split()[3] for line in listening] == ["127.0.0.1:31001"]
    for secret in ("manifest.json", "environment", "lab-0001.service"):
        mode = served.on("stat", "-c", "%a", f"{STATE}/releases/0001/{secret}").strip()
        assert mode == "600", secret


def test_a_fault_line_kills_the_trial_and_known_good_is_started_once(served: ServiceHost) -> None:
    served.script(w13={"fault_after": 20})
    ran = served.deploy(12)

    assert ran.code == 3
    assert ran.document["outcome"] == "rolled-back"
    assert [f["rule"] for f in ran.document["faults"]] == ["illegal-memory-access"]
    assert "illegal memory access" in ran.document["faults"][0]["line"]
    assert served.starts("lab-0002.service") == 1
    assert served.starts("lab-0001.service") == 2
    assert served.active("lab-0002.service") == "inactive"
    assert served.boots() == "lab-0001.service"
    assert served.ask() == "Paris"


@pytest.mark.parametrize(
    ("script", "gate", "opened"),
    [
        ({"wrong": True}, "smoke", False),
        ({"wrong_tokens": True}, "lossless", False),
        ({"collapsed": True}, "acceptance", False),
        ({"wrong_after": 20}, "soak", True),  # smoke asks 16
    ],
)
def test_each_gate_stops_what_the_ones_before_let_through(
    served: ServiceHost, script: dict[str, Any], gate: str, opened: bool
) -> None:
    served.script(w13=script)
    ran = served.ddops("deploy", "lab", "--budget", "12", "--soak", "40s")

    assert ran.code == 3, ran
    assert [step["step"] for step in ran.document["steps"] if not step["ok"]] == [gate]
    assert ran.document["reason"]["code"] == "gate-failed"
    assert served.began("open", DEPLOY) is opened
    assert served.pointer("known-good") == 1
    assert served.ask() == "Paris"


def test_an_overlay_that_does_not_report_is_not_promoted(served: ServiceHost) -> None:
    served.script(w13={"mute_overlay": True})
    ran = served.deploy(12)

    assert ran.code == 3
    assert "overlay did not report from every scheduler rank" in ran.document["reason"]["what"]
    assert served.pointer("known-good") == 1


def test_an_engine_that_ends_in_the_soak_is_rolled_back(served: ServiceHost) -> None:
    client = served.start("deploy", "lab", "--budget", "12", "--soak", "60s")
    wait_for(lambda: served.began("soak", DEPLOY), 20, "the soak")
    served.on("systemctl", "kill", "-s", "TERM", "--kill-who=main", "lab-0002.service")
    code, document = served.finish(client)

    assert code == 3
    assert [s["step"] for s in document["steps"] if not s["ok"]] == ["soak"]
    assert document["faults"][0]["rule"] == "engine-ended"
    assert served.ask() == "Paris"


def test_what_is_no_reason_to_go_back_is_noticed_and_takes_the_blame(served: ServiceHost) -> None:
    full = "OSError: [Errno 28] No space left on device: '/var/cache/triton/ab12'"
    served.script(w13={"says": full, "exits_loaded": True}, w17={"says": full})
    ran = served.deploy(12)
    assert ran.code == 3, ran
    assert [(n["rule"], n["fault"], n["line"]) for n in ran.document["noticed"]] == [("disk-full", "disk_full", full)]
    assert "noticed disk-full: " in ran.stderr
    again = served.deploy(12)
    assert again.code == 3, "the disk was full: that says nothing of the release"

    served.script(w13={"exits_loaded": True}, w17={"says": full})
    assert served.deploy(12).code == 3
    blamed = served.deploy(12)
    assert (blamed.code, blamed.document["outcome"]) == (5, "refused"), blamed
    passed = served.deploy(16)
    assert (passed.code, [n["rule"] for n in passed.document["noticed"]]) == (0, ["disk-full"]), passed


def test_the_host_finishes_when_the_client_is_killed_in_mid_switch(served: ServiceHost) -> None:
    served.script(w13={"load_s": 2})
    client = served.start_deploy(12)
    wait_for(lambda: served.began("stop", DEPLOY), 20, "the live release is being stopped")
    client.kill()

    outcome = wait_for(lambda: served.outcome(DEPLOY), 30, "the host has stored the outcome")
    assert outcome["outcome"] == "promoted"
    assert served.boots() == "lab-0002.service"
    assert served.ask() == "Paris"


def test_only_known_good_starts_after_a_power_cut_in_mid_load(served: ServiceHost) -> None:
    served.script(w13={"load_s": 60})
    client = served.start_deploy(12)
    wait_for(lambda: served.starts("lab-0002.service"), 20, "the trial has started")
    served.lab.crash(served.name)
    served.lab.start(served.name)

    wait_for(lambda: served.ask() == "Paris", 30, "known-good answers after the boot")
    outcome = wait_for(lambda: served.outcome(DEPLOY), 30, "the host has stored the outcome")
    assert outcome["outcome"] == "rolled-back"
    assert outcome["reason"]["what"] == "the host restarted during the trial"
    this_boot = served.on("journalctl", "-b", "-u", "lab-0002.service", "-o", "cat", "--no-pager")
    assert "Started" not in this_boot
    assert served.pointer("live") == 1
    assert client.wait(120) == 3
    assert served.ddops("status").code == 0


def test_a_slow_load_that_makes_progress_outlives_a_fixed_deadline(served: ServiceHost, tmp_path: Path) -> None:
    served.profile = own_profile(tmp_path, load_silence=2)
    served.script(w13={"load_s": 7, "lines_s": 0.5}, w14={"load_s": 7, "lines_s": 0, "read_s": 0.5})
    for budget in (12, 13):
        ran = served.deploy(budget)
        assert ran.code == 0, ran.stderr


def test_a_silent_load_is_rolled_back(served: ServiceHost, tmp_path: Path) -> None:
    served.profile = own_profile(tmp_path, load_silence=2)
    served.script(w13={"load_s": 60, "lines_s": 0})
    ran = served.deploy(12)

    assert ran.code == 3
    assert "made no progress for 2 s" in ran.document["reason"]["what"]
    assert served.ask() == "Paris"


def test_an_old_release_that_has_to_be_killed_is_no_fault_of_the_new_one(served: ServiceHost, tmp_path: Path) -> None:
    served.profile = own_profile(tmp_path, stop=1)
    served.script(w13={"stubborn": True})
    assert served.deploy(12).code == 0
    ran = served.deploy(13)

    assert (ran.code, ran.document["faults"]) == (0, [])
    ended = [str(e["MESSAGE"]) for e in served.journal("lab-0002.service") if "exited" in str(e["MESSAGE"])]
    assert ended == ["lab-0002.service: Main process exited, code=killed, status=9/KILL"]
    assert (served.file(f"{STATE}/incidents.jsonl") or "") == ""
    served.assert_whole(3)


def test_a_redeploy_of_the_live_release_restarts_nothing_unless_it_is_forced(served: ServiceHost) -> None:
    pid = served.main_pid("lab-0001.service")
    ran = served.deploy(8)

    assert ran.code == 0
    assert ran.document["outcome"] == "unchanged"
    assert served.main_pid("lab-0001.service") == pid
    assert served.on("ls", f"{STATE}/releases").split() == ["0000", "0001"]

    forced = served.deploy(8, "--force")

    assert (forced.code, forced.document["outcome"]) == (0, "promoted")
    assert served.boots() == "lab-0002.service"
    assert served.main_pid("lab-0002.service") not in (0, pid)
    assert served.active("lab-0001.service") == "inactive"


def test_the_plan_changes_nothing(served: ServiceHost) -> None:
    # the database is brought up to date by a process that nobody waits for
    files = f"find {STATE} -type f ! -name 'ledger.*' | sort | xargs sha256sum"
    before = served.on("sh", "-c", files)
    ran = served.deploy(12, "--dry-run")

    assert ran.code == 0
    assert ran.document["plan"]["verify_width"] == 13
    assert ran.document["plan"]["way_back"]["release"] == 1
    assert served.on("sh", "-c", files) == before


def test_what_was_rolled_back_needs_force(served: ServiceHost) -> None:
    served.script(w13={"wrong": True})
    assert served.deploy(12).code == 3
    pid = served.main_pid("lab-0001.service")

    ran = served.deploy(12)
    assert ran.code == 5
    assert ran.document["reason"]["hint"].startswith("--force")
    assert served.main_pid("lab-0001.service") == pid
    served.script(w13={})
    assert served.deploy(12, "--force").code == 0


def test_nothing_is_deployed_where_there_is_no_way_back(stub: ServiceHost) -> None:
    stub.on("systemctl", "disable", "--now", "sglang.service")
    ran = stub.deploy(8)
    assert ran.code == 5
    assert "no way back" in ran.document["error"]["what"]

    first = stub.deploy(8, "--first")
    assert first.code == 0, first.stderr
    assert [v["passed"] for v in first.document["verdicts"] if v["gate"] == "lossless"] == [None]
    assert stub.ask() == "Paris"


def test_graphs_are_refused_with_the_profiles_reason(served: ServiceHost) -> None:
    ran = served.deploy(8, "--graphs")
    assert ran.code == 5
    assert ran.document["error"]["why"] == "CUDA graphs do not exist on a CPU"


def test_a_drill_is_refused_on_a_host_that_is_no_lab_host(served: ServiceHost) -> None:
    served.on("rm", "/etc/ddops-lab")
    ran = served.deploy(12, "--drill", "garbage")
    assert ran.code == 5
    assert "not a lab host" in ran.document["reason"]["what"]
    assert served.active("lab-0001.service") == "active"


def test_a_second_operator_is_told_who_holds_the_lock(served: ServiceHost) -> None:
    served.script(w13={"load_s": 3})
    client = served.start_deploy(12)
    wait_for(lambda: served.began("load", DEPLOY), 20, "the first deploy loads")

    ran = served.deploy(16)
    assert ran.code == 7
    assert re.search(r"locked by \S+ since", ran.document["error"]["what"])
    assert client.wait(120) == 0


def test_a_trial_that_nobody_confirms_is_rolled_back(served: ServiceHost) -> None:
    ran = served.deploy(12, "--confirm", "1s")
    assert ran.code == 3
    assert "nobody confirmed" in ran.document["reason"]["what"]
    assert served.pointer("known-good") == 1


def test_a_confirmed_trial_is_promoted(served: ServiceHost) -> None:
    client = served.start_deploy(12, "--confirm", "60s")
    wait_for(lambda: served.began("confirm", DEPLOY), 20, "the host waits for the confirmation")
    assert served.ddops("confirm").code == 0
    assert client.wait(120) == 0
    assert served.boots() == "lab-0002.service"


def test_the_exit_code_is_read_back_after_the_network_was_cut(served: ServiceHost) -> None:
    served.script(w13={"fault_after": 20, "load_s": 2})
    client = served.start_deploy(12)
    wait_for(lambda: served.starts("lab-0002.service"), 20, "the trial loads")
    served.lab.cut(served.name)
    wait_for(lambda: served.outcome(DEPLOY), 30, "the host went back alone")
    served.lab.heal(served.name)

    code, document = served.finish(client)
    assert code == 3
    assert document["outcome"] == "rolled-back"


def test_an_interrupt_ends_the_client_at_once_and_the_host_goes_on(served: ServiceHost) -> None:
    served.script(w13={"load_s": 3})
    client = served.start_deploy(12)
    wait_for(lambda: served.began("load", DEPLOY), 20, "the trial loads")
    client.send_signal(signal.SIGINT)

    code, document = served.finish(client, seconds=5)
    assert code == 130
    assert "goes on at stub" in document["error"]["why"]
    outcome = wait_for(lambda: served.outcome(DEPLOY), 30, "the host has stored the outcome")
    assert outcome["outcome"] == "promoted"
