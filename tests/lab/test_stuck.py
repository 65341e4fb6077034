"""Processes that do not end, or ended without their children: nothing is started beside what is left of an engine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ddops import resources

from .service_host import Ran, ServiceHost, wait_for

pytestmark = pytest.mark.lab

FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def hasty(adopted: ServiceHost, tmp_path: Path) -> ServiceHost:
    """A host whose release 1 is known-good, with deadlines of a few seconds."""
    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    values["deadlines"].update(drain=1, stop=1, load_silence=5)
    adopted.profile = str(tmp_path / "hasty.yaml")
    Path(adopted.profile).write_text(yaml.safe_dump(values))
    ran = adopted.deploy(8)
    assert ran.code == 0, ran
    return adopted


@contextlib.contextmanager
def stuck(host: ServiceHost, pid: int) -> Iterator[None]:
    """Keeps a process of the host in the kernel, in state D: SIGKILL ends it only at the end."""
    if not FREEZER.is_dir():
        pytest.skip("this kernel has no freezer of the first kind of control groups; in the second SIGKILL ends a task")
    group = FREEZER / f"ddops-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(seen_from_here(host, pid)))
        (group / "freezer.state").write_text("FROZEN")
        wait_for(lambda: (group / "freezer.state").read_text() == "FROZEN\n", 5, "the process stands still")
        yield
    finally:
        (group / "freezer.state").write_text("THAWED")
        wait_for(lambda: not (group / "cgroup.procs").read_text(), 20, "the process has ended")
        group.rmdir()


def seen_from_here(host: ServiceHost, pid: int) -> int:
    """Returns the number that this machine has for a process of the host."""
    namespace = os.readlink(f"/proc/{host.lab.host(host.name).pid1}/ns/pid")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "ns/pid") == namespace:
                numbers = (process / "status").read_text().partition("NSpid:")[2].split("\n")[0].split()
                if int(numbers[-1]) == pid:
                    return int(process.name)
    raise AssertionError(f"{host.name} has no process {pid}")


def process(host: ServiceHost, words: str) -> int:
    """Returns the process of the host whose command line ends in these words."""
    return int(host.on("pgrep", "--full", f"{words}$"))


def leaves_its_group(host: ServiceHost, pid: int) -> None:
    """Moves a process to the control group of another unit, as a container's runtime does."""
    host.on("systemd-run", f"--unit=elsewhere-{pid}", "sleep", "1000")
    groups = f"find /sys/fs/cgroup -type d -name elsewhere-{pid}.service"
    host.on("sh", "-c", f"for group in $({groups}); do echo {pid} > $group/cgroup.procs; done")


def told(ran: Ran) -> str:
    """Returns the last thing that is said of a service that is down, with the next step."""
    assert (ran.code, ran.document["outcome"]) == (4, "rollback-failed"), ran
    found = ran.document.get("rollback") or ran.document["reason"]
    return f"{found['what']}; {found['hint']}"


def test_a_process_in_the_kernel_is_named_and_nothing_is_started_beside_it(hasty: ServiceHost) -> None:
    pid = process(hasty, "sglang::scheduler_TP0")
    with stuck(hasty, pid):
        ran = hasty.deploy(12)
        for said in (str(ran.document["reason"]), told(ran)):
            assert f"lab-0001.service is not gone: pid {pid} (" in said
            assert "in the kernel (state D)" in said
            assert "with a reboot, which starts lab-0001.service" in said
        # systemd gives such a process up after a while, and calls its unit failed; 249 and older: inactive
        wait_for(lambda: hasty.active("lab-0001.service") in ("failed", "inactive"), 60, "systemd gives it up")
        assert f"lab-0001.service is not gone: pid {pid} (" in told(hasty.ddops("rollback"))
        assert hasty.starts("lab-0001.service") == 1
        assert hasty.starts("lab-0002.service") == 0
    assert hasty.ddops("rollback").code == 0
    hasty.assert_whole(1)


def test_a_process_that_left_its_group_is_ended_or_named(hasty: ServiceHost) -> None:
    hasty.script(w9={"orphan": "marked"}, w13={"orphan": "bare"})
    hasty.on("systemctl", "restart", "lab-0001.service")
    wait_for(lambda: hasty.ask() == "Paris", 20, "release 1 serves again")
    orphan = process(hasty, "orphan-marked")
    leaves_its_group(hasty, orphan)
    assert hasty.deploy(12).code == 0
    assert hasty.file(f"/proc/{orphan}/stat") is None
    hasty.assert_whole(2)

    orphan = process(hasty, "orphan-bare")
    leaves_its_group(hasty, orphan)
    said = told(hasty.deploy(16))
    assert f"lab-0002.service is not gone: port 31002 is held by pid {orphan} (" in said
    assert "end it by hand" in said
    assert hasty.starts("lab-0003.service") == 0
    assert hasty.starts("lab-0002.service") == 1
    hasty.on("kill", "-9", str(orphan))
    assert hasty.ddops("rollback").code == 0
    hasty.assert_whole(2)
