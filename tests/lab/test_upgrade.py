"""An older and a newer ddops at one host: state of before is read, state of after is left alone, nobody goes down."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from ddops import resources
from ddops.lab import inside

from .service_host import STATE, ServiceHost, unchanged, wait_for

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
STATES = ROOT / "tests/states"
DEPLOY = 3  # the operation after the adoption and the first deploy
SUPERVISOR = "ddops-supervisor@lab.service"
_ETC = "/etc/systemd/system"


def put_back(host: ServiceHost, folder: Path) -> None:
    """Makes the host what it was when its state was recorded: known-good is release 1, and boots."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(folder, arcname=".")
    host.on("systemctl", "disable", "--now", "sglang.service")
    command = inside.exec_command(host.lab.host(host.name), "tar", "-x", "-C", "/", "--no-same-owner")
    subprocess.run(command, input=packed.getvalue(), check=True)
    links = (
        ("lab-0001.service", f"{_ETC}/lab.service"),
        (f"{_ETC}/lab.service", f"{_ETC}/multi-user.target.wants/lab.service"),
        (f"{_ETC}/lab-front.socket", f"{_ETC}/lab-0001.service.wants/lab-front.socket"),
    )
    host.on("mkdir", f"{_ETC}/lab-0001.service.wants")
    host.on("sh", "-c", "; ".join(f"ln -s {target} {link}" for target, link in links))
    host.on("sh", "-c", "systemctl daemon-reload; systemctl start lab.service")
    wait_for(lambda: host.ask() == "Paris", 20, "known-good answers")


@pytest.mark.parametrize("recorded", sorted(path.name for path in STATES.iterdir()))
def test_a_host_that_an_earlier_ddops_left_is_taken_over_as_it_is(stub: ServiceHost, recorded: str) -> None:
    put_back(stub, STATES / recorded)
    pid = stub.main_pid("lab-0001.service")
    ran = stub.ddops("status")
    assert (ran.code, ran.document["live"]["release"], ran.document["healthy"]) == (0, 1, True)
    told = stub.ddops("history").document["operations"]
    assert [o["outcome"] for o in told][:5] == ["adopted", "promoted", "rolled-back", "unchanged", "restarted"]
    assert stub.ddops("rollback").document["outcome"] == "unchanged"
    assert stub.main_pid("lab-0001.service") == pid

    ran = stub.deploy(12, "--force")  # the model of this host is another than the recorded one's
    assert ran.code == 0, ran
    assert (ran.document["release"]["release"], stub.boots()) == (3, "lab-0003.service")
    for number in (1, 0):
        ran = stub.ddops("rollback", "--to", str(number))
        assert ran.code == 0, ran
        assert stub.pointer("known-good") == number
        assert stub.ask() == "Paris"


@pytest.fixture
def newer(served: ServiceHost, tmp_path: Path) -> ServiceHost:
    """The same host, seen by a ddops of the next version, whose state has the next format."""
    for name in ("ddops", "templates", "profiles", "kernels_patch"):
        shutil.copytree(ROOT / name, tmp_path / "newer" / name, ignore=shutil.ignore_patterns("__pycache__"))
    agent = tmp_path / "newer/ddops/agent"
    for path, old, new in (
        (agent / "__init__.py", 'VERSION = "', 'VERSION = "9.'),
        (agent / "state.py", "FORMAT = 1", "FORMAT = 2"),
    ):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    return replace(served, folder=tmp_path / "newer", clients=[])


def test_an_older_and_a_newer_ddops_at_one_host(served: ServiceHost, newer: ServiceHost) -> None:
    mark = f"{STATE}/format"
    assert json.loads(served.file(mark) or "")["format"] == 1

    # the older one's operation is under way: the newer one sees it, waits for it, may end it
    client = served.start("deploy", "lab", "--budget", "12", "--soak", "120s")
    wait_for(lambda: served.began("soak", DEPLOY), 30, "the soak")
    agent = served.on("sha256sum", f"{STATE}/agent.pyz")
    assert newer.ddops("status").document["under_way"]["step"] == "soak"
    ran = newer.deploy(16)
    assert (ran.code, ran.document["error"]["why"]) == (7, f"operation {DEPLOY}: deploy")
    assert served.on("sha256sum", f"{STATE}/agent.pyz") == agent
    assert newer.ddops("rollback").code == 0
    assert served.finish(client)[0] == 3
    assert json.loads(served.file(mark) or "")["format"] == 1, "its supervisor is still the older one"
    served.assert_whole(1)

    # the newer one's is under way: the older one touches nothing and says so
    client = newer.start("deploy", "lab", "--budget", "16", "--soak", "120s")
    wait_for(lambda: served.began("soak", DEPLOY + 1), 30, "the soak")
    assert json.loads(served.file(mark) or "")["format"] == 2
    with unchanged(served):
        for words in (("status",), ("deploy", "lab", "--budget", "8"), ("rollback",)):
            ran = served.ddops(*words)
            assert (ran.code, ran.document["error"]["code"]) == (12, 12), ran
            assert "newer ddops, 9." in ran.document["error"]["what"]
            assert "use ddops 9." in ran.document["error"]["hint"]
    assert [e["event"] for e in served.steps(DEPLOY + 1) if e["event"] == "cancelled"] == []
    assert newer.ddops("rollback").code == 0
    assert newer.finish(client)[0] == 3

    # an older agent was put back by hand: it does not run, and what needs no supervisor goes on
    pid = served.main_pid("lab-0001.service")
    inner = inside.exec_command(served.lab.host("stub"), "sh", "-c", f"cat > {STATE}/agent.pyz")
    subprocess.run(inner, input=resources.agent(), check=True)
    served.on("systemctl", "restart", SUPERVISOR, check=False)
    wait_for(lambda: served.active(SUPERVISOR) == "failed", 20, "the supervisor ends")
    shown = served.show(SUPERVISOR, "ExecMainStatus", "NRestarts")
    assert shown == {"ExecMainStatus": "12", "NRestarts": "0"}
    done = served.lab.ssh("stub", f"{STATE}/rollback", seconds=30)
    assert done.returncode == 12
    assert served.main_pid("lab-0001.service") == pid
    served.on("systemctl", "kill", "-s", "KILL", "lab-0001.service")
    assert newer.ddops("rollback").code == 0
    assert served.ask() == "Paris"
    assert newer.deploy(16, "--force").code == 0
    assert served.active(SUPERVISOR) == "active"
