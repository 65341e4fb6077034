"""``ddops doctor`` on hosts as they are: it finds what is planted, and changes nothing."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from .service_host import STATE, Ran, ServiceHost, unchanged, wait_for
from .stub_host import PACKAGES

pytestmark = pytest.mark.lab

# the stub is no SGLang: nothing that the overlay hooks is there
STUB = ["overlay fit"]


def name_the_profile(host: ServiceHost, **more: Any) -> None:
    path = Path(host.environment["DDOPS_SITE"])
    values = yaml.safe_load(path.read_text())
    values["hosts"][host.name]["profile"] = "lab"
    path.write_text(yaml.safe_dump({**values, **more}))


def checks(ran: Ran) -> list[dict[str, str]]:
    [host] = ran.document["hosts"]
    found: list[dict[str, str]] = host["checks"]
    return found


def of(ran: Ran) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in checks(ran)}


def files_of(host: ServiceHost) -> str:
    """Returns every file that ddops and systemd keep, with its change time.

    Of the ledger's own files nothing: after an operation a process that nobody waits for brings it up to date.
    """
    find = "find /var/lib/ddops /etc /opt/stub ! -type d ! -name 'ledger.*' -printf '%p %s %C@\\n'"
    return host.on("sh", "-c", f"{find} | sort | sha256sum")


def bad(ran: Ran) -> list[tuple[str, str]]:
    return [(c["name"], c["found"]) for c in checks(ran) if c["state"] == "bad" and c["name"] not in STUB]


def test_a_healthy_host_is_well_and_planted_faults_are_found(served: ServiceHost, stub_folder: Path) -> None:
    name_the_profile(served)
    before = files_of(served)
    with unchanged(served):
        ran = served.ddops("doctor")
    assert files_of(served) == before
    assert bad(ran) == []
    states = {name: check["state"] for name, check in of(ran).items()}
    assert ran.code == 9, "the stub's SGLang is not the one that the overlay was written for"
    assert {n for n, s in states.items() if s == "warn"} <= {"journal"}
    assert [states[n] for n in ("ssh", "clock", "root", "systemd", "disk", "model", "sglang", "lab: memlock")] == [
        "ok"
    ] * 8
    found = {name: check["found"] for name, check in of(ran).items()}
    assert found["lab: port"] == "8000 is the service's own"
    assert found["lab: next port"] == "31002 is free for release 2"
    assert found["lab: way back"].startswith("release 1, ")
    assert "is not there" in found["overlay fit"]

    record = stub_folder / f"{PACKAGES}/sglang-0.5.16.dist-info/RECORD"
    text = record.read_text()
    served.on("sh", "-c", "mkdir /etc/systemd/system/lab-0001.service.d; cd /etc/systemd/system/lab-0001.service.d;"
              " printf '[Service]\\nNice=5\\n' > more.conf; systemctl daemon-reload")  # fmt: skip
    served.on("systemctl", "mask", "--now", "ddops-supervisor@lab.service")
    served.on("systemd-run", "--unit=stranger", "python3", "-m", "http.server", "31002", "--bind", "127.0.0.1")
    wait_for(lambda: ":31002 " in served.on("ss", "-ltnH"), 20, "the stranger listens")
    served.on("rm", f"{STATE}/rollback")
    name_the_profile(served, model="/opt/none")
    right = base64.urlsafe_b64encode(hashlib.sha256(b"").digest()).rstrip(b"=").decode()
    # the second is as it says: a deploy would remember that, a doctor writes nothing
    record.write_text(f"{text}sglang/launch_server.py,sha256=AAAA,1\nsglang/__init__.py,sha256={right},0\n")
    try:
        before = files_of(served)
        with unchanged(served):
            ran = served.ddops("doctor")
        assert files_of(served) == before
    finally:
        record.write_text(text)
    assert ran.code == 9
    found_bad = bad(ran)
    [(_, holder)] = [entry for entry in found_bad if entry[0] == "lab: next port"]
    assert holder.startswith("31002 is held by pid ")
    assert holder.endswith("of stranger.service")
    assert sorted(set(found_bad) - {("lab: next port", holder)}) == [
        ("lab: supervisor", "inactive"),
        ("lab: unit", "ddops-supervisor@lab.service is masked"),
        ("lab: unit", "lab-0001.service has the drop-in /etc/systemd/system/lab-0001.service.d/more.conf"),
        ("lab: way back", "lab-0001.service is not what release 1 was promoted with"),
        ("model", "/opt/none is no folder on this host"),
        ("record", f"/opt/stub/{PACKAGES}/sglang/launch_server.py differs from SGLang's RECORD"),
    ]
    for check in checks(ran):
        assert check["state"] in ("ok", "not here") or check["why"], check


def test_a_key_that_is_not_the_known_one_is_bad_and_no_host_that_is_down(stub: ServiceHost, tmp_path: Path) -> None:
    """Before anything of ddops is on the host: the hand-made unit holds the port and is named."""
    name_the_profile(stub)
    ran = stub.ddops("doctor")
    port = of(ran)["lab: port"]
    assert (port["state"], port["next"]) == ("warn", "ddops adopt UNIT, if it is it")
    assert "of sglang.service" in port["found"]
    assert stub.on("sh", "-c", "ls -d /var/lib/ddops 2>/dev/null || echo none") == "none\n"

    path = Path(stub.environment["DDOPS_SITE"])
    values = yaml.safe_load(path.read_text())
    (tmp_path / "known").write_text("")
    values["hosts"]["stub"]["known_hosts"] = str(tmp_path / "known")
    path.write_text(yaml.safe_dump(values))
    ran = stub.ddops("doctor")
    assert ran.code == 9
    [host] = ran.document["hosts"]
    [ssh] = host["checks"]
    assert (ssh["state"], host["unreachable"]) == ("bad", False)
    assert "is not known" in ssh["found"]
    assert "ssh-" in ssh["next"]


GPU = "1, NVIDIA B300 SXM6 AC, 580.95.05, {cap}, {memory}, 1100.00"
SMI = "/usr/local/bin/nvidia-smi"


def test_a_deploy_is_refused_before_anything_stops_where_the_gpus_are_not_the_profiles(served: ServiceHost) -> None:
    path = Path(served.environment["DDOPS_SITE"])
    values = yaml.safe_load(path.read_text())
    wanted = {"arch": "sm_103", "gpus": 2, "gpu_memory_mib": 275040}
    ours = {"hardware": wanted, "launch": {"arguments": {"tp-size": 2}}}
    path.write_text(yaml.safe_dump({**values, "profiles": {"lab": ours}}))
    right = GPU.format(cap="10.3", memory="275040")
    hosts = {
        "gpus: nvidia-smi is not on this host": None,
        "gpus: 1 x NVIDIA B300 SXM6 AC": f"echo '{right}'",
        "gpu arch: sm_120": f"yes '{GPU.format(cap='12.0', memory='275040')}' | head -2",
        "gpu memory: 97887 MiB each": f"yes '{GPU.format(cap='10.3', memory='97887')}' | head -2",
    }
    for at, (said, script) in enumerate(hosts.items()):
        if script:
            served.write(SMI, f"#!/bin/sh\n{script}\n")
            served.on("chmod", "755", SMI)
        with unchanged(served):
            ran = served.deploy(9)
        assert ran.code == 5, ran
        assert ran.document["reason"]["what"].endswith(f"profile lab is for: {said}"), ran
        assert ran.document["reason"]["hint"]
        assert [e["step"] for e in served.steps(3 + at) if e["event"] == "step"] == ["preflight"]

    served.write(SMI, f"#!/bin/sh\nyes '{right}' | head -2\n")
    ran = served.deploy(9)
    assert ran.code == 3, "the stub does not say its tp-size"
    assert [e["step"] for e in served.steps(7) if e["event"] == "step-done"][:2] == ["preflight", "drain"]
