"""What happens at an exact moment: kills and power cuts at every step of a deploy, and faults that hide."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from .service_host import STATE, ServiceHost, wait_for
from .watching import SUPERVISOR

pytestmark = pytest.mark.lab

DEPLOY = 3  # the operation after the adoption and the first deploy
UNITS = "/etc/systemd/system"
STEPS = (
    *("preflight", "drain", "stop", "switch", "load", "ready"),
    *("smoke", "lossless", "acceptance", "throughput", "open", "soak", "promote"),
)
FAULT = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize("delays_ms", [(0, 20), (50, 200, 3000)])
def test_a_supervisor_killed_after_the_fault_line_starts_known_good_once(
    served: ServiceHost, delays_ms: tuple[int, ...]
) -> None:
    for n, delay in enumerate(delays_ms):
        fifo = f"/run/moment-{n}"
        served.script(**{f"w{13 + n}": {"fault_after": 20, "moment": fifo}}, w9={"load_s": 1})
        watcher = served.at_moment("KILL", delay, "byte", fifo)
        client = served.start_deploy(12 + n)
        wait_for(lambda n=n: served.outcome(DEPLOY + n), 40, f"killed {delay} ms after the fault")

        assert watcher.wait(120) == 0
        assert served.finish(client)[0] == 3
        assert served.starts(f"lab-{2 + n:04d}.service") == 1, "the trial was started again"
        assert served.starts("lab-0001.service") == 2 + n, f"killed {delay} ms after the fault"
        assert served.steps(DEPLOY + n)[-1]["outcome"] == "rolled-back"
        served.assert_whole(1)


@pytest.mark.parametrize("steps", [STEPS[0::2], STEPS[1::2]])
def test_client_and_supervisor_killed_at_every_step(served: ServiceHost, steps: tuple[str, ...]) -> None:
    for n, step in enumerate(steps):
        watcher = served.at_step("KILL", DEPLOY + n, step)
        client = served.start_deploy(12 + n)
        assert watcher.wait(120) == 0
        client.kill()

        outcome = wait_for(lambda n=n: served.outcome(DEPLOY + n), 40, f"killed at {step}")
        assert outcome["outcome"] == "promoted", step
        assert sum(e["event"] == "taken-up" for e in served.steps(DEPLOY + n)) == 2
        assert served.starts(f"lab-{2 + n:04d}.service") == 1, f"killed at {step}"
        served.assert_whole(2 + n)


def written_but_not_read(host: ServiceHost, unit: str, old: str, new: str) -> None:
    """Leaves a unit's file as it is, and systemd with an earlier text of it: somebody died between the two."""
    path = f"{UNITS}/{unit}"
    text = host.file(path) or ""
    assert old in text
    host.write(path, text.replace(old, new))
    host.on("systemctl", "daemon-reload")
    if unit.startswith("ddops-supervisor"):
        host.on("systemctl", "restart", SUPERVISOR)
    host.write(path, text)


def test_a_unit_that_was_written_and_not_read_is_read(served: ServiceHost) -> None:
    """The front's, by a supervisor that was killed in between, and the supervisor's own, by an agent that was."""
    written_but_not_read(served, "lab-front.socket", "ListenStream=0.0.0.0:8000", "ListenStream=0.0.0.0:8123")
    ran = served.deploy(12)
    assert ran.code == 0, ran
    served.assert_whole(2)

    written_but_not_read(served, "ddops-supervisor@.service", "[Service]", "[Service]\nEnvironment=EARLIER=1")
    environment = f"/proc/{served.main_pid(SUPERVISOR)}/environ"
    assert "EARLIER=1" in (served.file(environment) or "")
    ran = served.deploy(13)
    assert ran.code == 0, ran
    environment = f"/proc/{served.main_pid(SUPERVISOR)}/environ"
    assert "EARLIER=1" not in (served.file(environment) or "")
    served.assert_whole(3)


@pytest.mark.parametrize("steps", [STEPS[0::3], STEPS[1::3], STEPS[2::3]])
def test_a_power_cut_at_every_step(served: ServiceHost, steps: tuple[str, ...]) -> None:
    good = 1
    for n, step in enumerate(steps):
        watcher = served.at_step("STOP", DEPLOY + n, step)
        client = served.start_deploy(12 + n)
        assert watcher.wait(120) == 0
        served.lab.crash(served.name)
        client.kill()
        served.lab.start(served.name)

        outcome = wait_for(lambda n=n: served.outcome(DEPLOY + n), 40, f"power cut at {step}")
        if step == "promote" and outcome["outcome"] == "promoted":
            good = 2 + n  # the alias that boots was renamed before the power went
        else:
            assert outcome["outcome"] == ("refused" if step == "preflight" else "rolled-back"), step
            assert outcome["reason"]["what"] == "the host restarted during the trial"
        this_boot = served.on("journalctl", "-b", "-u", f"lab-{2 + n:04d}.service", "-o", "cat", "--no-pager")
        assert good != 1 or "Started" not in this_boot, f"power cut at {step}"
        wait_for(lambda: served.ask() == "Paris", 20, f"known-good serves after a power cut at {step}")
        served.assert_whole(good)


@pytest.mark.parametrize(
    ("script", "gates"),
    [
        ({"wrong_late": 200}, {"acceptance", "lossless", "soak"}),
        ({"wrong_crowd": 2}, {"smoke"}),
        ({"wrong_late": 300, "wrong_crowd": 2}, {"soak"}),
    ],
)
def test_corruption_that_hides_from_the_first_looks_is_found(
    served: ServiceHost, script: dict[str, Any], gates: set[str]
) -> None:
    served.script(w13=script)
    ran = served.ddops("deploy", "lab", "--budget", "12", "--soak", "60s")

    assert ran.code == 3, ran
    assert {step["step"] for step in ran.document["steps"] if not step["ok"]} <= gates
    assert ran.document["reason"]["code"] == "gate-failed"
    served.assert_whole(1)


def test_a_fault_line_of_somebody_else_does_nothing(served: ServiceHost) -> None:
    """Written by another unit, by logger under the service's own name, and in a user's prompt."""
    served.script(w13={"log_requests": True})
    client = served.start("deploy", "lab", "--budget", "12", "--soak", "6s")
    wait_for(lambda: served.began("soak", DEPLOY), 30, "the soak")
    served.on("logger", "-t", "lab", FAULT)
    served.on("systemd-run", "--wait", "--quiet", "--slice=lab.slice", "--property=SyslogIdentifier=lab", "echo", FAULT)
    served.on("sh", "-c", f"echo '<3>{FAULT}' > /dev/kmsg", check=False)
    assert served.ask(f"France? Explain the message {FAULT!r}") == "Paris"
    logged = [line for line in served.lines("lab-0002.service") if "Receive: obj=" in line and FAULT in line]
    assert logged, "the engine did not log the prompt"

    code, document = served.finish(client)
    assert (code, document["faults"]) == (0, [])
    assert served.starts("lab-0001.service") == 1
    served.assert_whole(2)


def test_references_are_known_goods_alone(served: ServiceHost) -> None:
    def references() -> dict[str, str]:
        files = served.on("sh", "-c", f"cd {STATE}/references && ls").split()
        return {
            name: hashlib.sha256((served.file(f"{STATE}/references/{name}") or "").encode()).hexdigest()
            for name in files
        }

    served.script(w13={"wrong_tokens": True}, w14={"collapsed": True}, w15={"wrong_after": 20})
    assert served.deploy(12).code == 3
    before = references()
    assert {name.split("-")[0] for name in before} == {"0000", "0001"}
    assert served.deploy(12, "--force").code == 3, "the wrong answers became the references"
    assert served.deploy(13).code == 3
    assert served.ddops("deploy", "lab", "--budget", "14", "--soak", "40s").code == 3
    assert references() == before
    served.assert_whole(1)
