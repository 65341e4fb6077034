"""Hosts on which something is missing or in the way: refused with the next step, and nothing is changed."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.disturbances import ALL
from ddops.lab.options import Disk

from .service_host import STATE, Ran, ServiceHost, unchanged, wait_for

pytestmark = pytest.mark.lab

MASK = "/etc/systemd/system"


# on a full disk journald would remove its oldest files, and there would be room again
_JOURNAL_STAYS = """
mkdir -p /etc/systemd/journald.conf.d
printf '[Journal]\nSystemMaxUse=8M\nSystemKeepFree=1K\n' > /etc/systemd/journald.conf.d/stays.conf
systemctl restart systemd-journald
"""


def told(ran: Ran) -> dict[str, str]:
    """Returns what a refusal says, whether the host refused before or after the request was filed."""
    assert ran.code == 5, ran
    found: dict[str, str] = ran.document.get("error") or ran.document["reason"]
    assert found["hint"]
    return found


def elsewhere(host: ServiceHost, folder: Path, **values: Any) -> ServiceHost:
    """Returns the host with another site file: values of the site itself, or of its entry."""
    site = yaml.safe_load(Path(host.environment["DDOPS_SITE"]).read_text())
    for key, value in values.items():
        (site if key in site else site["hosts"][host.name])[key] = value
    path = folder / "elsewhere.yaml"
    path.write_text(yaml.safe_dump(site))
    return replace(host, environment={**host.environment, "DDOPS_SITE": str(path)})


def stranger(host: ServiceHost, port: int) -> str:
    """Has somebody else listen on a port; returns the unit's name."""
    unit = f"stranger-{port}"
    host.on("systemd-run", f"--unit={unit}", "python3", "-m", "http.server", str(port))
    wait_for(lambda: f":{port} " in host.on("ss", "-ltnH"), 10, "the stranger listens")
    return unit


def masked(host: ServiceHost, unit: str) -> None:
    host.on("sh", "-c", f"ln -s /dev/null {MASK}/{unit}; systemctl daemon-reload")


def test_a_release_that_lacks_what_it_needs_leaves_known_good_as_it_is(served: ServiceHost, tmp_path: Path) -> None:
    """Each refused deploy has used up a release's number."""
    with unchanged(served):
        ran = elsewhere(served, tmp_path, model="/models/gone").deploy(12)
        assert "the model is not at /models/gone" in told(ran)["what"]
        ran = elsewhere(served, tmp_path, engine={"python": "/opt/gone/bin/python"}).deploy(12)
        assert "no engine at /opt/gone/bin/python" in told(ran)["what"]

    unit = stranger(served, 31004)
    with unchanged(served):
        said = told(served.deploy(12))
    assert "port 31004" in said["what"]
    assert f"{unit}.service" in said["why"]
    assert served.active(unit) == "active"

    # a deploy must not take back what an operator has decided
    for name in ("lab-0005.service", "lab.service", "lab-front.socket"):
        served.on("sh", "-c", f"mv {MASK}/{name} /root/ || true")
        masked(served, name)
        with unchanged(served):
            said = told(served.deploy(12))
        assert said["what"] == f"{name} is masked"
        assert said["hint"] == f"systemctl unmask {name}"
        served.on("sh", "-c", f"rm {MASK}/{name}; mv /root/{name} {MASK}/ || true; systemctl daemon-reload")

    served.on("systemd-run", "--unit=lab-0777", "sleep", "1000")
    with unchanged(served):
        assert "lab-0777.service is not gone: pid " in told(served.deploy(12))["what"]
    served.on("systemctl", "stop", "lab-0777")
    assert served.deploy(12).code == 0


def test_a_stranger_on_the_public_port_is_left_alone(served: ServiceHost) -> None:
    served.on("systemctl", "stop", "lab-front.socket", "lab-front.service")
    unit = stranger(served, 8000)
    with unchanged(served):
        said = told(served.deploy(12))
    assert "port 8000 (the public port)" in said["what"]
    assert f"{unit}.service" in said["why"]

    ran = served.ddops("status")
    assert (ran.code, ran.document["ails"]) == (9, [f"the front is {ran.document['front']}"])
    assert ran.document["front"] not in ("open", "none")
    told_to_people = subprocess.run(served.argv("status"), env=served.environment, capture_output=True, text=True)
    assert told_to_people.returncode == 9, told_to_people.stderr
    assert "hint: ddops rollback --host stub --service lab; ddops doctor --host stub" in told_to_people.stderr
    pid = served.main_pid("lab-0001.service")
    ran = served.ddops("rollback")
    assert ran.code == 4, "users do not reach known-good"
    assert f"{unit}.service" in str(ran.document["reason"])
    assert served.active(unit) == "active"
    assert served.main_pid("lab-0001.service") == pid
    served.on("systemctl", "stop", unit)
    assert served.ddops("rollback").code == 0
    assert served.ask() == "Paris"


def test_a_unit_that_cannot_be_adopted_is_named_and_nothing_is_installed(stub: ServiceHost, tmp_path: Path) -> None:
    with unchanged(stub):
        said = told(stub.ddops("adopt", "sglagn"))
        assert said["what"] == "sglagn.service is not on this host"
        assert said["hint"] == "did you mean sglang.service?"
        assert told(stub.ddops("adopt", "kimi"))["hint"].startswith("systemctl list-units"), "all units end in .service"
        for name in ("../../etc/passwd", "ünit", "a b", "*", "x" * 300):
            assert "cannot be the name of a service unit" in told(stub.ddops("adopt", name))["what"]
        assert "not running" in told(stub.ddops("adopt", "emergency"))["what"]
        assert "does not listen on port 9" in told(stub.ddops("adopt", "sglang", "--port", "9"))["what"]
        told(stub.ddops("adopt", "sglang", "--service", "sglang"))

    masked(stub, "ddops-supervisor@lab.service")
    with unchanged(stub):
        assert told(stub.ddops("adopt", "sglang"))["what"] == "ddops-supervisor@lab.service is masked"
    stub.on("systemctl", "unmask", "ddops-supervisor@lab.service")

    stub.on("mv", f"{MASK}/sglang.service", "/lib/systemd/system/")
    masked(stub, "sglang.service")
    with unchanged(stub):
        said = told(stub.ddops("adopt", "sglang"))
        assert said["what"] == "sglang.service is masked"
        assert said["hint"] == "systemctl unmask sglang.service"

    # an sshd that is PID 1 of its own namespace: what a container without systemd looks like
    stub.on("systemd-run", "unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c",
            "mount -t tmpfs tmpfs /run/systemd && exec /usr/sbin/sshd -D -p 2222")  # fmt: skip
    wait_for(lambda: ":2222 " in stub.on("ss", "-ltnH"), 10, "the second sshd listens")
    known = tmp_path / "known_hosts"
    key = stub.on("cat", "/etc/ssh/ssh_host_ed25519_key.pub").split()
    known.write_text(f"[{stub.lab.address(stub.name)}]:2222 {key[0]} {key[1]}\n")
    container = elsewhere(stub, tmp_path, port=2222, known_hosts=str(known))
    with unchanged(stub):
        said = told(container.ddops("adopt", "sglang"))
        assert said["what"] == "systemd does not run on this host"
        assert "PID 1 is sshd" in said["why"]
        told(container.deploy(8, "--first"))


@pytest.mark.parametrize("stub", [Disk("ext4", "96M")], indirect=True)
def test_a_host_without_room_for_bytes_or_inodes_is_left_as_it_is(stub: ServiceHost) -> None:
    def fill() -> None:
        stub.on("sh", "-c", "fallocate -l 1G /var/fill || cat /dev/zero > /var/fill || true")

    fill()
    with unchanged(stub):
        assert "MiB free" in told(stub.ddops("adopt", "sglang"))["what"]
    stub.on("rm", "/var/fill")
    assert stub.ddops("adopt", "sglang").code == 0

    fill()
    with unchanged(stub):
        assert "MiB free" in told(stub.deploy(8))["what"]
    stub.on("rm", "/var/fill")

    stub.on("sh", "-c", "mkdir /var/many; cd /var/many; seq $(($(stat -f -c %d .) - 50)) | xargs touch")
    with unchanged(stub):
        said = told(stub.deploy(8))
    assert "inodes free" in said["what"]
    assert said["hint"] == "df -i"
    stub.on("rm", "-r", "/var/many")
    assert stub.deploy(8).code == 0
    assert stub.ask() == "Paris"

    stub.bring_down("lab-0001.service")
    stub.on("sh", "-c", "mkdir /var/many; cd /var/many; seq $(($(stat -f -c %d .) + 50)) | xargs touch || true")
    assert stub.on("stat", "-f", "-c", "%d", "/var").strip() == "0"
    ran = stub.ddops("rollback")
    assert ran.code == 0, ran
    assert stub.ask() == "Paris", "an operator can roll back on a full disk"
    stub.on("rm", "-r", "/var/many")
    wait_for(lambda: stub.file(f"{STATE}/reserve/000") is not None, 20, "room is set aside again")
    stub.assert_whole(1)

    assert stub.ddops("rollback", "--to", "0").code == 0
    stub.on("sh", "-c", _JOURNAL_STAYS)
    full = ALL["disk without bytes"]
    full.strike(stub)  # and what comes free is taken at once
    client = stub.start("rollback", "--to", "1")
    wait_for(lambda: stub.boots() == "lab-0001.service" and stub.pointer("known-good") == 1, 30, "it goes through")
    assert stub.ask() == "Paris"
    assert stub.ddops("status").document["disk_full"]
    full.undo(stub)
    code, document = stub.finish(client)
    assert (code, document["outcome"]) == (0, "rolled-back")
    stub.assert_whole(1)
