"""Secrets stay where they were put, and the engine's user reaches nothing of ddops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from .service_host import STATE, ServiceHost, wait_for

pytestmark = pytest.mark.lab

ENGINE, BY_HAND, HOOK = "planted-in-the-engine", "planted-by-hand", "planted-in-a-webhook"
FILE = "planted-in-a-file"
PLANTED = (ENGINE, BY_HAND, HOOK, FILE)
# where they were put, and root's own record of the hand-made unit: its text and its environment, as they were
THEIR_PLACES = (
    "/etc/secret.env",
    "/etc/hook",
    "/etc/token",
    "/etc/systemd/system/sglang.service.d/",
    f"{STATE}/releases/0000/",
)

# runs as the engine's user, in the engine's own namespaces: what of ddops can it list, read or change
REACH = """
import json, os
found = {"read": [], "written": [], "listed": []}
for top in ("/var/lib/ddops", "/run/ddops", "/run/ddops-agents", "/etc/systemd/system", "/etc/secret.env"):
    for folder, folders, files in os.walk(top) if os.path.isdir(top) else [("/", [], [top])]:
        if folder != "/" and not folder.startswith("/etc"):
            found["listed"].append(folder)
        if os.access(folder, os.W_OK) and folder != "/":
            found["written"].append(folder)
        for path in (os.path.join(folder, name) for name in files):
            if os.path.realpath(path) == "/dev/null":
                continue  # a masked unit
            try:
                open(path, "rb").close()
                found["read"].append(path)
            except OSError:
                pass
            try:
                open(path, "ab").close()
                found["written"].append(path)
            except OSError:
                pass
for path in PATHS:
    for mode, name in (("rb", "read"), ("ab", "written")):
        try:
            open(path, mode).close()
            found[name].append(path)
        except OSError:
            pass
print(json.dumps(found))
"""


def configured(host: ServiceHost, **values: Any) -> None:
    site = Path(host.environment["DDOPS_SITE"])
    site.write_text(yaml.safe_dump({**yaml.safe_load(site.read_text()), **values}))


def holding(host: ServiceHost, *folders: str) -> list[str]:
    """Returns the files that hold a planted secret, those left out in which it was planted."""
    words = [part for secret in PLANTED for part in ("-e", secret)]
    found = host.on("grep", "-rlaF", *words, *folders, check=False).splitlines()
    return [path for path in found if not path.startswith(THEIR_PLACES)]


def test_planted_secrets_are_nowhere_else_and_the_engine_reaches_nothing(stub: ServiceHost) -> None:
    """Of the engine's variables, of a unit made by hand, of a webhook's address."""
    stub.write("/etc/secret.env", f"HF_TOKEN={ENGINE}\n")
    stub.write("/etc/hook", f"http://127.0.0.1:9/{HOOK}\n")
    stub.write("/etc/token", FILE)
    stub.on("chmod", "600", "/etc/secret.env", "/etc/hook", "/etc/token")
    stub.on("mkdir", "/etc/systemd/system/sglang.service.d")
    stub.write("/etc/systemd/system/sglang.service.d/key.conf", f"[Service]\nEnvironment=API_KEY={BY_HAND}\n")
    stub.on("chmod", "600", "/etc/systemd/system/sglang.service.d/key.conf")
    stub.on("sh", "-c", "systemctl daemon-reload && systemctl restart sglang.service")
    wait_for(lambda: stub.ask() == "Paris", 20, "the hand-made unit answers")
    tokens = {"HF_TOKEN_PATH": "/etc/token"}
    configured(stub, secrets=["/etc/secret.env"], credentials=tokens, notify={"webhook_url_file": "/etc/hook"})
    stub.script(w13={"wrong": True})

    told = [stub.ddops("adopt", "sglang.service"), stub.ddops("diff", "lab"), stub.deploy(8), stub.deploy(12)]
    told += [stub.ddops(verb) for verb in ("status", "history", "doctor")]
    assert [ran.code for ran in told[2:4]] == [0, 3]
    pid = stub.main_pid("lab-0001.service")
    assert f"HF_TOKEN={ENGINE}" in stub.on("cat", f"/proc/{pid}/environ").split("\0"), "the engine has it"
    inside = "/run/credentials/lab-0001.service/HF_TOKEN_PATH"
    environ = stub.on("cat", f"/proc/{pid}/environ")
    assert f"HF_TOKEN_PATH={inside}" in environ.split("\0")
    assert FILE not in environ
    assert stub.on("runuser", "-u", "nobody", "--", "cat", inside, check=False) == ""
    assert holding(stub, "/etc", "/var/lib/ddops", "/run/ddops", "/run/ddops-agents", "/run/systemd") == []
    for ran in told:
        assert not any(secret in json.dumps(ran.document) + ran.stderr for secret in PLANTED), ran
    everything = stub.on("journalctl", "--no-pager", "-o", "export", "--all")
    arguments = stub.on("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    # a process that has ended meanwhile has no environment any more
    each = "grep -lasF ddops-supervisor /proc/[0-9]*/cgroup | sed s/cgroup/environ/ | xargs cat"
    ours = stub.on("sh", "-c", each, check=False)
    assert "WATCHDOG_PID" in ours, "the supervisor's own is among them"
    for secret in PLANTED:
        assert secret not in everything, "in the journal"
        assert secret not in arguments, "in arguments"
        assert secret not in ours, "in the supervisor's environment"

    # what a release names is there before anything stops, and before a rollback to it does
    configured(stub, credentials={**tokens, "OTHER": "/etc/other"})
    ran = stub.deploy(16)
    assert (ran.code, ran.document["reason"]["what"]) == (5, "/etc/other is not on this host"), ran
    stub.on("mv", "/etc/token", "/root/")
    assert "/etc/token is not there" in stub.ddops("rollback").document["reason"]["what"]
    assert stub.main_pid("lab-0001.service") == pid
    stub.on("mv", "/root/token", "/etc/")

    below = stub.on("find", STATE, "/run/ddops", "/run/ddops-agents", "-type", "f").split()
    script = REACH.replace("PATHS", repr([*below, "/etc/secret.env", "/etc/hook", "/etc/token"]))
    show = stub.show("lab-0001.service", "MainPID")
    uid = stub.on("stat", "-c", "%u", f"/proc/{show['MainPID']}").strip()
    words = ("nsenter", "-t", str(pid), "-a", "setpriv", "--reuid", uid, "--regid", uid, "--clear-groups")
    reached = json.loads(stub.on(*words, "/usr/bin/python3", "-c", script))
    assert stub.on(*words, "cat", inside) == FILE, "the engine reads its copy"
    assert reached["written"] == []
    ours_read = [path for path in reached["read"] if not path.startswith("/etc/systemd/")]
    public = {f"{STATE}/{name}" for name in ("known-good", "live", "front-target", "rollback")}
    overlays = {path for path in ours_read if path.startswith(f"{STATE}/releases/") and "/overlay/" in path}
    assert set(ours_read) - overlays <= public
    assert overlays, "the engine cannot read its overlay"
