"""What a plan says is what the host is, and what a process gets is what was rendered."""

from __future__ import annotations

import base64
import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ddops import overlay, profile, quoting, render, resources
from ddops.deploy import Request, options_of
from ddops.lab import engine, hand_made
from ddops.lab.config import LabConfig
from ddops.lab.inside import exec_command
from ddops.lab.lab import Lab
from ddops.settings import Asked
from ddops.site import Site

from .service_host import STATE, ServiceHost, wait_for

pytestmark = pytest.mark.lab

NASTY = "a %u %% $HOME ${HOME} $$ \\ \\n \" ' ` ; # | & * ~ ü 漢 🙂 end "


def reports(host: ServiceHost, unit: str) -> set[str]:
    """Returns the sha256 that the overlay of a unit's engine has written into the journal."""
    lines = [json.loads(line) for line in host.lines(unit) if line.startswith('{"ddops_overlay"')]
    return {line["ddops_overlay"]["overlay"] for line in lines}


def test_a_plan_tells_what_is_known_and_what_would_change(served: ServiceHost) -> None:
    served.script(w13={"fault_after": 20})
    assert served.deploy(12).code == 3
    pid = served.main_pid("lab-0001.service")
    plan = served.ddops("deploy", "lab", "--budget", "12", "--dry-run").document["plan"]

    assert [(e["outcome"], e["source"], e["other"]) for e in plan["evidence"]] == [("bad", "host", [])]
    assert "illegal-memory-access" in plan["evidence"][0]["what"]
    [command] = [d for d in plan["differences"] if d["part"] == "launch command"]
    assert [x for x in command["lines"] if x[0] in "+-"] == [
        "---speculative-num-draft-tokens 9",
        "+--speculative-num-draft-tokens 13",
    ]
    assert {d["part"] for d in plan["differences"]} == {"launch command", "unit"}
    measured = {s["step"]: s["seconds"] for n in (2, 3) for s in (served.outcome(n) or {})["steps"] if s["ok"]}
    parts = plan["no_service"]["parts"]
    assert parts.keys() == {"drain", "stop", "load", "gates"}
    assert {k: parts[k] for k in ("drain", "stop", "load")} == {k: measured[k] for k in ("drain", "stop", "load")}
    assert plan["no_service"]["seconds"] == pytest.approx(sum(parts.values()), abs=0.06)
    unit = "/etc/systemd/system/lab-0001.service"
    exposed = served.on("systemd-analyze", "security", "--offline=true", "--no-pager", unit, check=False)
    told = re.search(r": (\S+ \S+)", exposed.strip().rpartition("\n")[2])
    assert plan["exposure"] == (told and told[1]), "None before systemd 250, which tells of what runs alone"
    assert plan["limits"]["max_running"] == 8

    refused = served.deploy(12)
    assert refused.code == 5
    assert "this combination was rolled back before, as release 2" in str(refused.document["reason"])
    assert served.main_pid("lab-0001.service") == pid, "neither a plan nor a refusal touches the engine"
    served.script(w13={})
    assert served.deploy(12, "--force").code == 0
    plan = served.ddops("diff", "lab", "--budget", "12").document["plan"]
    assert plan["differences"] == []
    assert plan["evidence"][0]["outcome"] == "good"
    assert served.deploy(12).document["outcome"] == "unchanged"


def test_the_overlay_that_runs_is_the_one_of_the_plan(adopted: ServiceHost) -> None:
    plan = adopted.ddops("diff", "lab", "--budget", "8").document["plan"]
    [command, unit] = plan["differences"]
    assert "+--speculative-num-draft-tokens 9" in command["lines"], "the first plan compares with the adopted unit"
    assert "-Restart=always" in unit["lines"]
    assert plan["no_service"]["seconds"] is None
    assert set(plan["no_service"]["parts"].values()) == {None}
    assert adopted.ddops("status").document["engine"]["overlay"] == overlay.sha256()

    assert adopted.deploy(8).code == 0
    status = adopted.ddops("status").document
    assert plan["overlay"] == overlay.sha256()
    assert reports(adopted, "lab-0001.service") == {overlay.sha256()}
    assert status["engine"]["overlay"] == status["live"]["overlay"] == overlay.sha256()

    adopted.script(w13={"overlay": "0" * 64})
    ran = adopted.deploy(12)
    assert ran.code == 3
    assert ran.document["reason"]["what"] == "gate ready: another overlay than the release's runs"
    assert adopted.pointer("known-good") == 1


def odd_release(host: ServiceHost, folder: Path) -> tuple[render.Rendered, list[str], dict[str, str]]:
    """Renders release 7 of a profile and a site with odd values, and puts it where it belongs on the host."""
    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    values["launch"]["arguments"]["odd"] = NASTY + "\t\n"
    values["launch"]["environment"]["ODD"] = NASTY + "\t\nsecond line"
    (folder / "odd.yaml").write_text(yaml.safe_dump(values))
    odd = profile.load(str(folder / "odd.yaml"))
    site = Site.model_validate(yaml.safe_load(Path(host.environment["DDOPS_SITE"]).read_text()))
    site = site.model_copy(update={"secrets": ["/etc/a secret%s $x.env"]})
    options, _ = options_of(odd, site, Request(asked=Asked(budget=8)))
    made = render.release(odd, site, "lab", options, 7)
    files = {f"{STATE}/releases/0007/{name}": data for name, data in made.files.items()}
    hand_made._put(host.lab, host.name, {**files, site.secrets[0]: b'HIDDEN="s3 $x %y"\n'})
    host.on("chmod", "600", site.secrets[0])
    command = render.command(odd, site, "lab", options, 7)
    return made, command, render.environment(odd, site, "lab", options, made.unit.removesuffix(".service"))


def of_file(lab: Lab, host: str, path: str) -> list[str]:
    """Returns the words of a file that has a NUL after each, such as /proc/PID/cmdline, byte for byte."""
    text = base64.b64decode(lab.exec(host, "base64", "-w0", path).stdout).decode()
    return text.removesuffix("\0").split("\0")


def of_process(host: ServiceHost, unit: str) -> tuple[list[str], dict[str, str]]:
    """Returns a unit's arguments and environment as its process has them."""
    pid = host.main_pid(unit)
    variables = of_file(host.lab, host.name, f"/proc/{pid}/environ")
    return of_file(host.lab, host.name, f"/proc/{pid}/cmdline"), dict(v.partition("=")[::2] for v in variables)


def test_what_the_process_gets_is_what_was_rendered(stub: ServiceHost, tmp_path: Path) -> None:
    made, command, variables = odd_release(stub, tmp_path)
    folder = f"{STATE}/releases/0007"
    verify = f"systemd-analyze verify --man=no {folder}/*.service {folder}/*.socket 2>&1"
    verified = stub.on("sh", "-c", verify, check=False)
    assert [line for line in verified.splitlines() if "lab-" in line] == []

    stub.on("systemctl", "link", "--runtime", f"{folder}/{made.unit}")
    stub.on("systemctl", "start", made.unit)
    wait_for(lambda: ":31007 " in stub.on("ss", "-ltnH"), 20, "the engine listens")
    arguments, environment = of_process(stub, made.unit)
    assert arguments == command
    assert {name: environment.get(name) for name in variables} == variables
    assert environment["HIDDEN"] == "s3 $x %y"
    assert not any(b"s3 $x" in data for data in made.files.values()), "a secret is in no file of the release"
    stub.on("systemctl", "stop", made.unit)

    by_hand = subprocess.Popen(
        exec_command(stub.lab.host(stub.name), "sh", f"{folder}/launch"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: ":31007 " in stub.on("ss", "-ltnH"), 20, "the engine that was launched by hand listens")
        arguments, by_launch = of_process(stub, "lab-by-hand.service")
        assert arguments == command
        assert {name: by_launch.get(name) for name in variables} == variables
        assert by_launch["HIDDEN"] == "s3 $x %y"
    finally:
        stub.on("systemctl", "stop", "lab-by-hand.service", check=False)
        by_hand.wait(20)


def test_the_site_is_checked_on_its_host(stub: ServiceHost, tmp_path: Path) -> None:
    path = Path(stub.environment["DDOPS_SITE"])
    values: dict[str, Any] = yaml.safe_load(path.read_text())
    stub.write("/etc/secret.env", "A=b\n")
    stub.on("chmod", "600", "/etc/secret.env")
    path.write_text(yaml.safe_dump({**values, "secrets": ["/etc/secret.env"]}))
    ran = stub.ddops("site", "check")
    assert ran.code == 0, ran.stderr
    found = {f["name"]: f["good"] for f in ran.document["hosts"][0]["findings"]}
    assert found == {"engine.python": True, "model": True, "secrets": True, "ss": True}

    stub.on("chmod", "644", "/etc/secret.env")
    stub.on("sh", "-c", "mkdir -p /root/model && echo {} > /root/model/config.json && chmod 700 /root")
    wrong = {**values, "engine": {"python": "/opt/none/bin/python"}, "model": "/root/model", "drafter": "/opt/no"}
    path.write_text(yaml.safe_dump({**wrong, "secrets": ["/etc/secret.env", "/etc/none.env"]}))
    ran = stub.ddops("site", "check")
    assert ran.code == 5
    bad = [f["text"] for f in ran.document["hosts"][0]["findings"] if not f["good"]]
    assert bad == [
        "/opt/none/bin/python is no Python environment on this host",
        "/opt/no is no folder on this host",
        "/root is closed to the engine's user: /root/model/config.json cannot be read",
        "/etc/secret.env is not root's alone: chown root, chmod 600",
        "/etc/none.env: No such file or directory",
    ]


def words(count: int, seed: int, banned: str = "\0") -> list[str]:
    """Returns words of what quoting is about, the same ones for a seed."""
    chosen = random.Random(seed)  # noqa: S311 - no secret
    alphabet = [c for c in "%$\\\"'`;#={}[]()<>|&*?!~^@ \t\n\r:,.+-_/aZ0nuxü漢🙂\u00a0\u2028" if c not in banned]
    alphabet += ["%%", "%u", "%n", "$HOME", "${HOME}", "$$", "\\n", "\\x41", "\\u0041"]
    return ["".join(chosen.choices(alphabet, k=chosen.randrange(0, 12))) for _ in range(count)]


def test_systemd_itself_reads_what_quoting_writes(lab: Lab, booted: str) -> None:
    dump = "import shutil,sys;[shutil.copy(f'/proc/self/{n}',sys.argv[1]+'.'+n) for n in ('cmdline','environ')]"
    head = ["/usr/bin/python3", "-c", dump]
    for seed in range(3):
        arguments = [*head, f"/run/fuzz{seed}", *words(300, seed)]
        variables = {f"V{i}": word for i, word in enumerate(words(200, seed + 100, "\r"))}
        lines = [quoting.environment_line(name, value) for name, value in variables.items()]
        unit = f"[Service]\nType=oneshot\nEnvironmentFile=/run/fuzz.env\nExecStart={quoting.unit_command(arguments)}\n"
        transient = [*head, f"/run/hand{seed}", *words(100, seed)]
        run = f"systemd-run --quiet --wait --collect -- {quoting.transient(transient)}\n"
        files = {
            "/run/systemd/system/fuzz.service": unit,
            "/run/fuzz.env": "\n".join(lines) + "\n",
            "/run/fuzz.sh": run,
        }
        hand_made._put(lab, booted, {name: text.encode() for name, text in files.items()})
        for command in (("systemctl", "daemon-reload"), ("systemctl", "start", "fuzz.service"), ("sh", "/run/fuzz.sh")):
            done = lab.exec(booted, *command)
            assert done.returncode == 0, done.stderr
        assert of_file(lab, booted, f"/run/fuzz{seed}.cmdline") == arguments
        pairs = dict(pair.partition("=")[::2] for pair in of_file(lab, booted, f"/run/fuzz{seed}.environ"))
        assert {name: pairs.get(name) for name in variables} == variables
        assert of_file(lab, booted, f"/run/hand{seed}.cmdline") == transient


@pytest.mark.parametrize("name", profile.names())
def test_the_pinned_sglang_accepts_every_rendered_command(name: str) -> None:
    """Its own parser, in the environment of the lab's engine; nothing is loaded."""
    cache = LabConfig.from_environment().cache
    python = Path(engine.binds(cache)[0][0]) / "bin/python"
    if not python.exists():
        pytest.skip("the CPU engine is not built: ddops lab engine")
    site = Site.model_validate(
        {"hosts": {"h": {"address": "h"}}, "engine": {"python": "/p"}, "model": "/m", "drafter": "/d"}
    )
    wanted, commands = profile.load(name), []
    for budget in (7, 8, 12, 32):
        for graphs in {False, wanted.graphs.default}:
            options, _ = options_of(wanted, site, Request(asked=Asked(budget=budget, graphs=graphs)))
            commands.append(render.command(wanted, site, wanted.service, options, 1)[3:])
    code = """
import argparse, json, sys
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser(exit_on_error=False)
ServerArgs.add_cli_args(parser)
for words in json.load(sys.stdin):
    found = parser.parse_args(words)
    print(found.speculative_algorithm, found.speculative_num_draft_tokens, found.cuda_graph_max_bs_decode)
"""
    done = subprocess.run(
        [str(python), "-c", code], input=json.dumps(commands), capture_output=True, text=True, check=False,
        env={"SGLANG_USE_CPU_ENGINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    # --disable-cuda-graph is the one word for both kinds of graphs
    assert [x for x in done.stderr.splitlines() if "deprecated" in x and "--disable-cuda-graph" not in x] == []
    assert len(done.stdout.splitlines()) == len(commands)
