"""What is damaged, half done or in the way: the host says so, or goes on; it never loses a good release."""

from __future__ import annotations

import json
import subprocess

import pytest

from .service_host import STATE, ServiceHost, wait_for

pytestmark = pytest.mark.lab

DEPLOY = 3  # the operation after the adoption and the first deploy


def test_a_second_adoption_is_refused_and_leaves_release_0(adopted: ServiceHost) -> None:
    ran = adopted.ddops("adopt", "sglang.service")
    assert ran.code == 5
    assert adopted.file(f"{STATE}/releases/0000/manifest.json")
    ran = adopted.ddops("adopt", "sglang.service", "--profile", "b300")
    assert (ran.code, ran.document["error"]["what"]) == (5, "sglang.service is release 0 of lab already")
    assert ran.document["error"]["hint"] == "ddops status --service lab"
    ran = adopted.ddops("status")
    assert (ran.code, ran.document["ails"]) == (0, [])
    adopted.on("sh", "-c", "journalctl --rotate && journalctl --vacuum-time=1us")
    logs = subprocess.run(adopted.argv("logs"), env=adopted.environment, capture_output=True, text=True, check=True)
    assert logs.stdout or "the host's journal has no line of lab" in logs.stderr


@pytest.mark.parametrize("damage", ["garbage", "{}", "[1]", '{"release": 99, "sha256": ""}'])
def test_a_damaged_pointer_does_not_stop_a_named_rollback(served: ServiceHost, damage: str) -> None:
    for name in ("known-good", "live"):
        served.write(f"{STATE}/{name}", damage)
    ran = served.ddops("rollback")
    assert ran.code == 5
    assert "known-good not known (" in ran.stderr
    assert "{'error'" not in ran.stderr
    assert "which release is known-good is not known" in served.ddops("status").document["ails"]

    ran = served.ddops("rollback", "--to", "1")
    assert ran.code == 0, ran.stderr
    assert served.pointer("known-good") == served.pointer("live") == 1
    assert served.ask() == "Paris"


def test_a_damaged_request_does_not_make_the_supervisor_loop(served: ServiceHost) -> None:
    served.write(f"{STATE}/operations/{DEPLOY:06d}.request.json", "{")
    served.on("systemctl", "restart", "ddops-supervisor@lab.service")
    outcome = wait_for(lambda: served.outcome(DEPLOY), 20, "the supervisor ends what it cannot read")
    assert outcome["outcome"] == "unchanged"
    assert served.show("ddops-supervisor@lab.service", "NRestarts")["NRestarts"] == "0"
    assert served.ask() == "Paris"


def test_an_old_release_that_cannot_be_pruned_is_no_reason_to_roll_back(served: ServiceHost) -> None:
    served.write(f"{STATE}/releases/0000/manifest.json", "{")
    ran = served.deploy(12)
    assert ran.code == 0, ran.stderr
    assert served.boots() == "lab-0002.service"


def test_an_edited_unit_of_known_good_is_found_before_anything_stops(served: ServiceHost) -> None:
    pid = served.main_pid("lab-0001.service")
    served.on("sh", "-c", "echo '[Service]' >> /etc/systemd/system/lab-0001.service; systemctl daemon-reload")
    ran = served.deploy(12)
    assert ran.code == 5
    assert "not what release 1 was promoted with" in ran.document["reason"]["what"]
    assert served.main_pid("lab-0001.service") == pid

    served.bring_down("lab-0001.service")
    assert served.ddops("rollback").code == 0, "a rollback puts the release's own text back"
    assert served.ask() == "Paris"


def test_a_known_good_whose_unit_file_was_removed_is_told_and_the_way_to_another_one_holds(served: ServiceHost) -> None:
    """systemd keeps the dangling alias as a dead unit, and may take the one that runs for it when the alias moves."""
    assert served.deploy(12).code == 0
    for to in (1, 2):
        served.on("sh", "-c", "rm /etc/systemd/system/lab-00*.service && systemctl daemon-reload")
        removed = f"lab-{3 - to:04d}.service"
        [host] = served.ddops("doctor").document["hosts"]
        assert f"{removed} is not there" in [c["found"] for c in host["checks"] if c["state"] == "bad"]
        ran = served.ddops("rollback", "--to", str(to))
        assert ran.code == 0, ran
        served.assert_whole(to)
        assert served.active(f"lab-{to:04d}.service") == "active"


def test_a_failure_before_the_stop_leaves_known_good_as_it_runs(served: ServiceHost) -> None:
    """Its first line left the journal long ago; that is no reason not to open the front again."""
    pid = served.main_pid("lab-0001.service")
    served.on("journalctl", "--rotate", "--vacuum-time=1s")
    served.on("sh", "-c", f"rm -rf {STATE}/references; touch {STATE}/references")
    ran = served.deploy(12)

    assert ran.code == 3, ran.stderr
    assert [step["step"] for step in ran.document["steps"]] == ["preflight", "drain", "ask"]
    assert served.main_pid("lab-0001.service") == pid
    assert served.starts("lab-0002.service") == 0
    assert served.ask() == "Paris"


def test_a_rollback_before_the_stop_starts_no_trial(served: ServiceHost) -> None:
    pid = served.main_pid("lab-0001.service")
    held = served.at_step("STOP", DEPLOY, "preflight")
    client = served.start_deploy(12)
    assert held.wait(120) == 0
    rollback = served.start("rollback")
    wait_for(lambda: served.file("/run/ddops/lab/cancel"), 20, "the rollback is asked for")
    served.on("systemctl", "kill", "-s", "CONT", "ddops-supervisor@lab.service")

    assert served.finish(client)[0] in (3, 5)
    assert served.finish(rollback)[0] == 0
    assert served.starts("lab-0002.service") == 0
    assert served.main_pid("lab-0001.service") == pid
    served.assert_whole(1)


def test_a_reboot_in_the_soak_ends_on_known_good(served: ServiceHost) -> None:
    client = served.start("deploy", "lab", "--budget", "12", "--soak", "60s")
    wait_for(lambda: served.began("soak", DEPLOY), 30, "the soak")
    served.lab.reboot(served.name)

    wait_for(lambda: served.ask() == "Paris", 30, "known-good answers after the boot")
    assert client.wait(120) == 3
    assert served.pointer("live") == served.pointer("known-good") == 1
    assert served.active("lab-0002.service") == "inactive"
    assert served.ddops("status").code == 0


def test_nothing_of_a_trial_is_left_after_a_rollback(served: ServiceHost) -> None:
    served.script(w13={"wrong": True})
    assert served.deploy(12).code == 3
    left = served.on("sh", "-c", "find /etc/systemd/system /run/systemd/system -name '*lab-0002*'")
    assert left == ""
    assert json.loads(served.file(f"{STATE}/live") or "{}")["release"] == 1


def test_a_full_disk_does_not_stop_the_way_back(served: ServiceHost) -> None:
    client = served.start("deploy", "lab", "--budget", "12", "--soak", "60s")
    wait_for(lambda: served.began("soak", DEPLOY), 30, "the soak")
    served.on("sh", "-c", "cat /dev/zero > /var/fill || true")
    served.on("systemctl", "kill", "-s", "KILL", "lab-0002.service")

    wait_for(lambda: served.ask() == "Paris", 30, "known-good serves although nothing can be written")
    served.on("rm", "/var/fill")
    code, document = served.finish(client)
    assert code == 3, document.get("rollback")
    assert served.starts("ddops-supervisor@lab.service") == 1
    assert served.pointer("known-good") == 1


def test_a_known_good_that_hangs_is_found_before_the_front_is_closed(served: ServiceHost) -> None:
    served.on("systemctl", "kill", "-s", "STOP", "--kill-who=main", "lab-0001.service")
    profile = served.profile
    ran = served.ddops("deploy", profile, "--budget", "12", "--soak", "0.5s")
    assert ran.code == 5, ran
    assert "known-good does not serve" in ran.document["reason"]["what"]
    served.on("systemctl", "kill", "-s", "CONT", "--kill-who=main", "lab-0001.service")
    assert served.ask() == "Paris"


def test_a_supervisor_that_lost_the_request_goes_back_to_known_good(served: ServiceHost) -> None:
    served.start("deploy", "lab", "--budget", "12", "--soak", "60s")
    wait_for(lambda: served.began("soak", DEPLOY), 30, "the soak")
    served.write(f"{STATE}/operations/{DEPLOY:06d}.request.json", "{")
    served.write(f"{STATE}/releases/0002/manifest.json", "{")
    served.on("systemctl", "kill", "-s", "KILL", "ddops-supervisor@lab.service")

    wait_for(lambda: served.outcome(DEPLOY), 30, "the host has ended the operation")
    assert served.active("lab-0002.service") != "active"
    assert served.active("lab-0001.service") == "active"
    assert served.ask() == "Paris"
    assert served.pointer("live") == 1
    assert served.show("ddops-supervisor@lab.service", "NRestarts")["NRestarts"] == "1"


def test_an_engine_that_dies_while_the_supervisor_is_dead_in_promote_is_not_promoted(served: ServiceHost) -> None:
    served.on("mkdir", "-p", "/etc/systemd/system/ddops-supervisor@lab.service.d")
    slow = "[Service]\nRestartSec=3\n"
    served.write("/etc/systemd/system/ddops-supervisor@lab.service.d/slow.conf", slow)
    served.on("systemctl", "daemon-reload")
    held = served.at_step("STOP", DEPLOY, "promote")
    client = served.start_deploy(12)
    assert held.wait(120) == 0
    served.on("systemctl", "kill", "-s", "KILL", "ddops-supervisor@lab.service")
    served.on("systemctl", "kill", "-s", "KILL", "lab-0002.service")
    code, document = served.finish(client)
    told = [document["outcome"], document["reason"], document.get("rollback"), document["host"], document["steps"]]
    assert code == 3, told
    assert served.ask() == "Paris"
    assert served.pointer("known-good") == 1
    assert served.boots() == "lab-0001.service"


def test_what_known_good_lacks_is_said_before_anything_is_stopped(served: ServiceHost) -> None:
    """And a disk that is read-only: by an operator nothing can be filed, a trial is ended all the same."""
    pid, release = served.main_pid("lab-0001.service"), f"{STATE}/releases/0001"
    for away, what, back in (
        (("mv", release, "/root/aside"), "release 1 is not on this host", ("mv", "/root/aside", release)),
        (("mount", "-t", "tmpfs", "tmpfs", "/opt/stub"), "/opt/stub/bin/python is not there", ("umount", "/opt/stub")),
        (  # a disk that is not mounted leaves an empty folder
            ("mount", "-t", "tmpfs", "tmpfs", "/opt/stub/model"),
            "what lies in /opt/stub/model is not there",
            ("umount", "/opt/stub/model"),
        ),
    ):
        served.on(*away)
        ran = served.ddops("rollback")
        assert ran.code == 5, ran
        assert what in ran.document["reason"]["what"], ran
        assert ran.document["reason"]["hint"]
        served.on(*back)
    unit = "/etc/systemd/system/lab-0001.service"
    served.on("sh", "-c", f"mv {unit} /root/; ln -s /dev/null {unit}; systemctl daemon-reload")
    assert served.ddops("rollback").document["reason"]["hint"] == "systemctl unmask lab-0001.service"
    served.on("sh", "-c", f"rm {unit}; mv /root/lab-0001.service {unit}; systemctl daemon-reload")

    read_only = ("sh", "-c", f"mount --bind {STATE} {STATE}; mount -o remount,bind,ro {STATE}")
    served.on(*read_only)
    ran = served.ddops("rollback")
    assert ran.code == 5
    assert "Read-only" in ran.document["error"]["what"]
    assert "systemctl restart lab.service" in ran.document["error"]["hint"]
    done = served.lab.ssh(served.name, f"{STATE}/rollback", seconds=30)
    assert (done.returncode, "Traceback" in done.stderr) == (5, False), done.stderr
    assert "systemctl restart" in done.stderr
    assert served.main_pid("lab-0001.service") == pid
    served.on("systemctl", "restart", "lab.service")
    wait_for(lambda: served.ask() == "Paris", 20, "known-good serves, by hand")
    served.on("umount", STATE)

    client = served.start("deploy", "lab", "--budget", "12", "--soak", "120s")
    begun = f"grep -l '\"soak\"' {STATE}/operations/*.jsonl | wc -l"
    wait_for(lambda: served.on("sh", "-c", begun).strip() == "2", 30, "the soak, which the first deploy had, too")
    served.on(*read_only)
    rollback = served.start("rollback")
    wait_for(
        lambda: served.active("lab-0002.service") == "inactive" and served.ask() == "Paris", 30, "known-good serves"
    )
    served.on("umount", STATE)
    assert served.finish(rollback)[0] == 0
    assert served.finish(client)[0] == 3
    served.assert_whole(1)
