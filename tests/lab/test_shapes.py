"""Hand-made units as teams write them: taken over so that the way back to them works, or refused before anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ddops import resources

from .service_host import STATE, ServiceHost, unchanged, wait_for
from .test_bad_hosts import told

pytestmark = pytest.mark.lab

ETC, USR = "/etc/systemd/system", "/usr/lib/systemd/system"
SERVE = "-m sglang.launch_server --model-path /opt/stub/model --served-model-name lab --host 0.0.0.0 --port 8000"
HOSTILE = {
    "quotes": 'it\'s "two" `three`',
    "backslashes": "\\ \\\\ \\n \\x41 end\\",
    "expansions": "$HOME ${HOME} $$ %h %n %% %",
    "lines": "one\ntwo\n\n  three\ttab",
    "unicode": "Grüße, 東京, 🚀",
    "spaces": "  in front and behind  ",
    "signs": "# ; & | > < * ? [x] {y} ~ ! = ,",
    "empty": "",
}


def loaded(host: ServiceHost) -> None:
    host.on("systemctl", "daemon-reload")


def put(host: ServiceHost, path: str, *lines: str) -> None:
    host.on("mkdir", "-p", path.rpartition("/")[0])
    host.write(path, "\n".join(lines) + "\n")


def refused(host: ServiceHost, unit: str, what: str) -> str:
    """Returns the hint of a refusal."""
    said = told(host.ddops("adopt", unit))
    assert what in said["what"], said
    return said["hint"]


def test_a_unit_that_could_not_be_brought_back_is_refused_and_goes_on(stub: ServiceHost) -> None:
    pid, drop = stub.main_pid("sglang.service"), "sglang.service.d/more.conf"
    stub.on("systemd-run", "--unit=passing", "sleep", "1000")
    assert "put it under /etc" in refused(stub, "passing", "gone at the next boot")
    put(stub, f"{ETC}/one@.service", "[Service]", "ExecStart=sleep 1000")
    stub.on("cp", "/bin/sleep", "/usr/local/bin/docker")
    put(stub, f"{ETC}/box.service", "[Service]", "ExecStart=/usr/local/bin/docker 1000")
    put(stub, f"{ETC}/shell.service", "[Service]", "ExecStart=sleep 1000")
    loaded(stub)
    stub.on("systemctl", "start", "one@two.service", "box.service", "shell.service")
    assert "with two for each %i" in refused(stub, "one@two", "an instance of a template")
    refused(stub, "box", "runs a container (docker,")
    refused(stub, "shell", "no process of shell.service is a Python")

    stub.on("ln", "-s", f"{ETC}/sglang.service", f"{ETC}/llm.service")
    put(stub, f"/run/systemd/system/{drop}", "[Service]", "Nice=1")
    loaded(stub)
    assert refused(stub, "llm", "another name of sglang.service") == "ddops adopt sglang.service"
    assert f"{ETC}/sglang.service.d" in refused(stub, "sglang", "a part of sglang.service is gone at the next boot")
    stub.on("rm", f"{ETC}/llm.service", f"/run/systemd/system/{drop}")

    put(stub, f"{ETC}/{drop}", "[Service]", "EnvironmentFile=/etc/gone", "EnvironmentFile=-/etc/never")
    loaded(stub)
    refused(stub, "sglang", "would not start again")
    stub.on("rm", f"{ETC}/{drop}")

    text = stub.file(f"{ETC}/sglang.service") or ""
    stub.write(f"{ETC}/keyed.service", text.replace("--port 8000", "--port 8001 --api-key=planted"))
    loaded(stub)
    stub.on("systemctl", "start", "keyed.service")
    assert "planted" not in refused(stub, "keyed", "answers only to an API key")
    stub.on("systemctl", "stop", "keyed.service")

    put(stub, f"{ETC}/sglang.socket", "[Socket]", "ListenStream=9000", "[Install]", "WantedBy=sockets.target")
    stub.on("systemctl", "enable", "sglang.socket")
    loaded(stub)
    assert "disable --now sglang.socket" in refused(stub, "sglang", "sglang.socket starts sglang.service")
    stub.on("systemctl", "disable", "sglang.socket")
    stub.on("rm", f"{ETC}/sglang.socket")

    wants = f"{USR}/multi-user.target.wants/sglang.service"
    stub.on("sh", "-c", f"rm {ETC}/multi-user.target.wants/sglang.service; ln -s {ETC}/sglang.service {wants}")
    loaded(stub)
    assert refused(stub, "sglang", "multi-user.target starts sglang.service").startswith(f"rm {wants}")
    stub.on("rm", wants)
    put(stub, f"{ETC}/app.service", "[Unit]", "Requires=sglang.service", "[Service]", "ExecStart=sleep 1000")
    loaded(stub)
    stub.on("systemctl", "start", "app.service")
    assert "systemctl cat app.service" in refused(stub, "sglang", "app.service starts sglang.service")
    stub.on("sh", "-c", f"systemctl stop app.service; rm {ETC}/app.service; systemctl daemon-reload")
    assert stub.main_pid("sglang.service") == pid
    assert stub.on("sh", "-c", f"ls -d /var/lib/ddops {ETC}/*ddops* || true") == "", "nothing was made for all that"
    assert stub.ddops("adopt", "sglang").code == 0, "nothing of all that is left"


def test_a_unit_of_a_package_with_a_wrapper_and_everybodys_drop_ins_is_taken_over(
    stub: ServiceHost, tmp_path: Path
) -> None:
    """Of a package, static, with a user; and a way back to it, and through releases with hostile values."""
    stub.on("systemctl", "disable", "--now", "sglang.service")
    stub.on("rm", f"{ETC}/sglang.service")
    put(
        stub, f"{USR}/sglang.service", "[Service]", "User=nobody", "ExecStartPre=/bin/true", "ExecStartPre=-/bin/false",
        "EnvironmentFile=-/etc/never", "EnvironmentFile=/etc/by-hand", "Environment=A=1 'B=two words'",
        "ExecStart=/bin/bash -c '\"$$0\" \"$$@\"; exit $$?' \\", "  /opt/stub/bin/python \\", f"  {SERVE}",
        "Restart=always",
    )  # fmt: skip
    put(stub, "/etc/by-hand", "# a comment", "C='single \"quotes\"'", 'D="with \\"both\\" and \\\\"', "E= plain  ")
    put(stub, f"{USR}/sglang.service.d/10.conf", "[Service]", "Environment=F=usr")
    put(stub, f"{ETC}/sglang.service.d/20 more.conf".replace(" ", "-"), "[Service]", "Environment=G=etc")
    put(stub, f"{ETC}/service.d/30-all.conf", "[Service]", "Environment=H=everybody")
    loaded(stub)
    stub.on("systemctl", "start", "sglang.service")
    wait_for(lambda: stub.ask() == "Paris", 20, "it answers")
    before = process(stub, "sglang.service")
    assert {"A=1", "B=two words", 'C=single "quotes"', 'D=with "both" and \\', "F=usr", "G=etc", "H=everybody"} <= set(
        before[1]
    )

    ran = stub.ddops("adopt", "sglang.service")
    assert ran.code == 0, ran
    manifest = json.loads(stub.file(f"{STATE}/releases/0000/manifest.json") or "")
    assert manifest["engine"] == {
        "host": "127.0.0.1", "port": 8000, "python": "/opt/stub/bin/python", "model": "/opt/stub/model",
        "drafter": None,
        "speculates": False,
    }  # fmt: skip
    assert len(manifest["files"]) == 4

    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    values["launch"]["environment"] |= {f"X_{name}": value for name, value in HOSTILE.items()}
    values["launch"]["arguments"] |= {f"x-{name}": value for name, value in HOSTILE.items()}
    stub.profile = str(tmp_path / "own.yaml")
    Path(stub.profile).write_text(yaml.safe_dump(values))
    for budget in (8, 12):  # the second one's way back has the drop-in of everybody, too
        ran = stub.deploy(budget)
        assert ran.code == 0, ran
    argv, environ = process(stub, "lab-0002.service")
    assert "H=everybody" in environ
    for name, value in HOSTILE.items():
        assert f"X_{name}={value}" in environ
        assert argv[argv.index(f"--x-{name}") + 1] == value
    assert stub.ddops("doctor").document["hosts"][0]["checks"]

    put(stub, f"{ETC}/service.d/30-all.conf", "[Service]", "Environment=H=changed")
    loaded(stub)
    assert "service.d/30-all.conf" in told(stub.deploy(8))["why"]
    put(stub, f"{ETC}/service.d/30-all.conf", "[Service]", "Environment=H=everybody")
    loaded(stub)
    stub.on("mv", "/etc/by-hand", "/etc/by-hand.gone")
    with unchanged(stub):
        assert "/etc/by-hand is not there" in told(stub.ddops("rollback", "--to", "0"))["what"]
    stub.on("mv", "/etc/by-hand.gone", "/etc/by-hand")
    ran = stub.ddops("rollback", "--to", "0")
    assert ran.code == 0, ran
    assert stub.ask() == "Paris"
    after = process(stub, "sglang.service")
    assert after[0] == before[0]
    own = {"INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID"}
    assert [{v for v in found[1] if v.partition("=")[0] not in own} for found in (before, after)].count(
        {v for v in before[1] if v.partition("=")[0] not in own}
    ) == 2
    stub.lab.reboot(stub.name)
    wait_for(lambda: stub.ask() == "Paris", 30, "it boots, although nothing had enabled it before")


def process(host: ServiceHost, unit: str) -> tuple[list[str], list[str]]:
    """Returns what the main process of a unit was given: its arguments and its environment, each as it has it."""
    pid = host.main_pid(unit)
    found = [host.on("cat", f"/proc/{pid}/{name}").split("\0")[:-1] for name in ("cmdline", "environ")]
    return found[0], found[1]


def test_a_unit_that_forks_and_is_linked_from_elsewhere_is_taken_over(stub: ServiceHost) -> None:
    """And has no start left: its limit was hit."""
    stub.on("systemctl", "disable", "--now", "sglang.service")
    stub.on("rm", f"{ETC}/sglang.service")
    put(stub, "/opt/start", "#!/bin/sh", f"/opt/stub/bin/python {SERVE} &", "echo $! > /run/sglang.pid")
    stub.on("chmod", "755", "/opt/start")
    put(
        stub, "/srv/units/sglang.service", "[Unit]", "StartLimitIntervalSec=1h", "StartLimitBurst=1", "[Service]",
        "Restart=always", "Type=forking", "PIDFile=/run/sglang.pid", "ExecStart=/opt/start", "[Install]",
        "WantedBy=multi-user.target",
    )  # fmt: skip
    loaded(stub)
    stub.on("systemctl", "enable", "--now", "/srv/units/sglang.service")
    wait_for(lambda: stub.ask() == "Paris", 20, "it answers")
    assert stub.ddops("adopt", "sglang").code == 0
    assert stub.ddops("pause").code == 0
    kill = ("systemctl", "kill", "-s", "KILL", "sglang.service")
    wait_for(
        lambda: stub.on(*kill, check=False) or stub.active("sglang.service") == "failed", 20, "it is down for good"
    )
    assert "repeated too quickly" in str([e.get("MESSAGE") for e in stub.journal("sglang.service")])
    ran = stub.ddops("rollback")
    assert (ran.code, ran.document["outcome"]) == (0, "rolled-back"), ran
    assert stub.ask() == "Paris"
    assert stub.on("cat", "/run/sglang.pid").strip() == str(stub.main_pid("sglang.service"))
