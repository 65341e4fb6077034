"""What users mistype: named before anything is done, with the nearest right one or the next step."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from ddops import config, profile, resources, settings, site
from ddops.agent import layout
from ddops.agent.errors import Refused
from ddops.cli import options
from ddops.errors import UsageError

# no host is there: whatever ends with 2 was found before anybody connected
SITE = "hosts: {gpu-1: {address: 127.0.0.1, port: 1}}\nengine: {python: /p}\nmodel: /m\n"
HOSTILE = ["../../etc", "a/b", "/etc", "-x", "--now", "ünit", "a b", "a\nb", "", "x" * 300, "%n", "$(id)", "A", "a.b"]


def ddops(folder: Path, *args: str) -> tuple[int, dict[str, Any], str]:
    """Runs ddops with --json; returns its exit code, the error of its document, and stderr."""
    (folder / "site.yaml").write_text(SITE)
    done = subprocess.run(
        [sys.executable, "-m", "ddops", *args, "--json"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "DDOPS_SITE": str(folder / "site.yaml")},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)["error"] if done.stdout else {}, done.stderr


@pytest.mark.parametrize(
    ("args", "what", "hint"),
    [
        (["deploy", "lba"], "unknown profile 'lba'", "did you mean 'lab'?"),
        (
            ["deploy", "../../etc/passwd"],
            "unknown profile '../../etc/passwd'",
            "ddops profile list; or a .yaml file of your own",
        ),
        (["deploy", "no.yaml"], "cannot read no.yaml", ""),
        (["status", "--host", "gpu1"], "unknown host 'gpu1'", "did you mean 'gpu-1'?"),
        (
            ["status", "--host", "elsewhere"],
            "unknown host 'elsewhere'",
            "--host USER@ADDRESS reaches one that the site does not name",
        ),
        (["status", "--host", "root@-oProxyCommand=id"], "'root@-oProxyCommand=id' is no host", "--host ops@192.0.2.7"),
        (["status", "--host", "root@"], "'root@' is no host", "--host ops@192.0.2.7"),
        (["status", "--host", "root@" + "x" * 300], "is no address", "correct the address"),
        (["status", "--host", "root@h:99999"], "no way to root@h:99999", "correct the site file or ssh_config"),
        (["status", "--host", "root@h:ssh"], "no way to root@h:ssh", "correct the site file or ssh_config"),
        (["deploy", "lab", "--budget", "0"], "budget 0 is out of range", "--budget 8 is its default"),
        (["deploy", "lab", "--budget", "-1"], "budget -1 is out of range", "--budget 8 is its default"),
        (["deploy", "lab", "--budget", "9" * 30], "is out of range", "--budget 8 is its default"),
        (["deploy", "lab", "--soak", "0"], "a soak of no time", "--soak 60s is the profile's"),
        (["deploy", "lab", "--soak", "0.0m"], "a soak of no time", "--soak 60s is the profile's"),
        (["deploy", "lab", "--confirm", "0"], "a confirmation in no time", "--confirm 10m"),
        *(
            (["deploy", "lab", option, "1h30m"], f"{option} '1h30m' is no time", "write 90, 60s, 10m or 1h")
            for option in ("--soak", "--confirm", "--patience")
        ),
        (["deploy", "lab", "--drill", "garbidge"], "unknown drill 'garbidge'", "did you mean 'garbage'?"),
        (["rollback", "--patience", "x"], "--patience 'x' is no time", "write 90, 60s, 10m or 1h"),
        (["deploy", "lab", "--service=../../etc"], "cannot be a service name", "--service NAME"),
        (["deploy", "lab", "--service="], "cannot be a service name", "--service NAME"),
        (["adopt", "u", "--profile", "lab", "--service=--now"], "cannot be a service name", "--service NAME"),
        (["eval", "smok"], "no suite 'smok'", "did you mean 'smoke'?"),
        (["faults", "explain", "illegal"], "no rule illegal", "did you mean 'illegal-memory-access'?"),
        (["bench", "--url", "gpu-1:30000"], "'gpu-1:30000' is no URL", "--url http://192.0.2.7:30000"),
        (["bench", "--url", "http://h", "--timeout", "0"], "a request in no time", "--timeout 10m"),
        (["bench", "--url", "http://h:99999"], "'http://h:99999' is no URL", "--url http://192.0.2.7:30000"),
        (["deploy", "lab", "--max-running", "1" + "0" * 330], "is out of range", ""),
        (
            ["sweep", "lab", "--budgets", "4", "--algorithm", ","],
            "--algorithm ',' names none",
            "--algorithm DDTREE,NGRAM",
        ),
        (["sweep", "lab", "--budgets", "4", "--csv", "no/x.csv"], "--csv no/x.csv cannot be written", ""),
        (["pause", "--for", "nope"], "--for 'nope' is no time", "write 90, 60s, 10m or 1h"),
        (["study", "--csv", "x.csv"], "which study?", "ddops study lists them; ddops study FILE --csv FILE"),
    ],
)
def test_a_wrong_value_ends_with_2_and_the_next_step(args: list[str], what: str, hint: str, tmp_path: Path) -> None:
    code, error, stderr = ddops(tmp_path, *args)
    assert code == 2, stderr
    assert what in error["what"]
    assert error["hint"] == hint


@pytest.mark.parametrize(
    "args",
    [
        ["deploy", "lab", "--budget", "many"],
        ["deploy", "lab", "--budget", "8.5"],
        ["deploy", "lab", "--budget", ""],
        ["adopt", "u", "--port", "0"],
        ["adopt", "u", "--port", "65536"],
        ["adopt", "-x"],
        ["history", "--last", "0"],
        ["rollback", "--to", "one"],
        ["deploy", "lab", "--budgte", "8"],
    ],
)
def test_what_the_command_line_cannot_take_ends_with_2(args: list[str], tmp_path: Path) -> None:
    code, error, stderr = ddops(tmp_path, *args)
    assert code == 2
    assert "Error" in stderr or "Invalid" in stderr
    assert error["code"] == 2
    assert error["what"] in " ".join(stderr.split())
    assert error["hint"] == f"ddops {args[0]} -h"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["deploy", "lab", "--budget", "twelve"], "'--budget': a whole number is wanted"),
        (["bench", "--rate", "x"], "'--rate': a number is wanted"),
        (["adopt", "u", "--port", "0"], "'--port': at least 1 is wanted"),
        (["adopt", "u", "--port", "65536"], "'--port': at most 65535 is wanted"),
    ],
)
def test_a_number_that_is_none_is_told_in_words_of_people(args: list[str], says: str, tmp_path: Path) -> None:
    code, error, stderr = ddops(tmp_path, *args)
    assert (code, error["what"]) == (2, f"Invalid value for {says}")
    assert says in stderr


def test_no_traceback_for_an_address_that_cannot_be(tmp_path: Path) -> None:
    code, error, _ = ddops(tmp_path, "status", "--host", "-oProxyCommand=touch owned@127.0.0.1:1")
    assert code == 6
    assert "cannot connect" in error["what"]
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_no_traceback_for_a_port_at_which_no_ssh_answers(greeting: bytes, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            client.sendall(greeting)
            client.close()

        threading.Thread(target=answer, daemon=True).start()
        port = server.getsockname()[1]
        (tmp_path / "other.yaml").write_text(SITE.replace("port: 1}", f"port: {port}}}"))
        code, error, stderr = ddops(tmp_path, "status", "--site", str(tmp_path / "other.yaml"))
    assert code == 6, stderr
    assert "cannot connect to" in error["what"]
    assert "Traceback" not in stderr


@pytest.mark.parametrize("text", ["soon", "1h30m", "5 m", "1d", "", "-1", "nan", "inf", "1e3", "٣s"])
def test_what_is_no_time_is_said_so(text: str) -> None:
    with pytest.raises(UsageError, match=r"--soak '.*' is no time"):
        options.seconds("--soak", text)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("0.5s", 0.5), ("10m", 600), ("1h", 3600)])
def test_a_time_is_in_seconds(text: str, seconds: float) -> None:
    assert options.seconds("--soak", text) == seconds


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_no_service_anywhere(name: str, tmp_path: Path) -> None:
    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**values, "service": name}))
    with pytest.raises(UsageError, match=r"mine\.yaml:\d+: service"):
        profile.load(str(path))
    with pytest.raises(Refused):
        layout.layout_of(name)
    (tmp_path / "site.yaml").write_text(SITE)
    effective = settings.resolve("lab", tmp_path / "site.yaml", None, settings.Asked())
    with pytest.raises(UsageError, match="cannot be a service name"):
        effective.service(name)


@pytest.mark.parametrize(
    "name",
    [*(f"{n}.service" for n in HOSTILE if n not in ("A", "a.b")), "--host=evil.service", "*.service", "a.timer"],
)
def test_a_hostile_name_is_no_unit(name: str) -> None:
    with pytest.raises(Refused):
        layout.unit_name(name)


@pytest.mark.parametrize("name", ["sglang.service", "a.b.service", "x@1.service", "dbus-org.x\\x2dy.service"])
def test_what_systemd_calls_a_service_is_a_unit(name: str) -> None:
    assert layout.unit_name(name) == name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SITE.replace("port: 1", "port: 0"), "hosts.gpu-1.port"),
        (SITE.replace("port: 1", "port: 65536"), "hosts.gpu-1.port"),
        (SITE.replace("127.0.0.1", "-oProxyCommand=id"), "hosts.gpu-1.address"),
        (SITE.replace("127.0.0.1", "''"), "hosts.gpu-1.address"),
        (SITE.replace("port: 1", "jump: -x"), "hosts.gpu-1.jump"),
        (SITE.replace("port: 1", "jump: 'a b'"), "hosts.gpu-1.jump"),
        ("? [a]\n: b\n", "is not valid YAML"),
        ("hosts: !!python/object/apply:os.system [id]\n", "is not valid YAML"),
        (SITE.replace("port: 1", "port: 022"), "is not valid YAML"),
        (SITE.replace("port: 1", "port: 1:30"), "is not valid YAML"),
        (SITE.replace("port: 1", "lab: on"), "is not valid YAML"),
        (SITE.replace("/m", "no"), "is not valid YAML"),
        (SITE.replace("port: 1", "port: true"), "hosts.gpu-1.port"),
        (SITE.replace("port: 1", "port: 1.5"), "hosts.gpu-1.port"),
        (SITE.replace("port: 1", "port: [1]"), "hosts.gpu-1.port"),
        (SITE.replace("port: 1", "lab: maybe"), "hosts.gpu-1.lab"),
        (SITE.replace("port: 1", "prot: 1"), "unknown key 'hosts.gpu-1.prot'"),
        (SITE.replace("model: /m", "model: 2026-01-02"), "model"),
        (SITE + "secrets: /etc/x\n", "secrets"),
        (SITE + "secrets: [x]\n", "secrets"),
        (SITE + "credentials: {HF_TOKEN_PATH: x}\n", "'x' is not an absolute path"),
        (SITE + "credentials: {A-B: /etc/x}\n", "'A-B' cannot be the name of an environment variable"),
        (SITE + "secrets:\n\t- /etc/x\n", "is not valid YAML"),
        (SITE + "overlay: {diffs: a, diff: b}\n", "unknown key 'overlay.diff'"),
        (SITE + "---\n" + SITE, "is not valid YAML"),
        (SITE + "engine: {python: /q}\n", "is not valid YAML"),
        ("# nothing\n", "hosts"),
        ("hosts: {}\nengine: {python: /p}\nmodel: /m\n", "hosts"),
        ("- 1\n", "the file"),
        ("", "hosts"),
    ],
)
def test_a_wrong_site_names_the_place(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        config.read(path, site.Site)
    assert says in caught.value.what


@pytest.mark.parametrize(
    ("text", "what", "why", "hint"),
    [
        (SITE.replace("port: 1", "port: ssh"), "hosts.gpu-1.port: a whole number is wanted", "found 'ssh'", ""),
        (SITE.replace("port: 1", "lab: maybe"), "hosts.gpu-1.lab: true or false is wanted", "found 'maybe'", ""),
        (SITE + "secrets: /etc/x\n", "secrets: a list is wanted", "found '/etc/x'", ""),
        (SITE.replace("model: /m", "model: [a]"), "model: text is wanted", "found ['a']", ""),
        (SITE.replace("{python: /p}", "/p"), "engine: a mapping, key: value is wanted", "found '/p'", ""),
        ("hosts: [gpu-1]\n", "hosts: a mapping, key: value is wanted", "found ['gpu-1']", ""),
        ("- 1\n", "the file: a mapping, key: value is wanted", "found [1]", ""),
        (SITE.replace("model: /m", ""), "'model' is missing", "it has no default", ""),
        (SITE.replace("/m", "models/kimi"), "model: 'models/kimi' is not an absolute path", "found 'models/kimi'", ""),
        ("hosts: {}\nengine: {python: /p}\nmodel: /m\n", "hosts: no host is named", "found {}", ""),
        (SITE + "secrets:\n\t- /etc/x\n", "is not valid YAML", "line 5, column 1: found character '\\t'", "no tabs"),
        (SITE + "model: /n\n", "is not valid YAML", "line 4, column 1: the key 'model' is there twice", ""),
    ],
)
def test_a_wrong_site_is_told_in_words_of_yaml_and_not_of_a_library(
    text: str, what: str, why: str, hint: str, tmp_path: Path
) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        config.read(path, site.Site)
    assert caught.value.what.endswith(what)
    assert caught.value.what.startswith(str(path))
    assert caught.value.why.startswith(why)
    assert hint in caught.value.hint


def test_a_name_that_nobody_knows_points_to_its_place_in_the_site_file(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(SITE.replace("127.0.0.1", "gpu-1.invalid"))
    code, error, _ = ddops(tmp_path, "status", "--site", "other.yaml")
    assert code == 6
    assert error["why"].startswith("nobody knows the name gpu-1.invalid: ")
    assert error["hint"] == "correct 'address' of gpu-1 in the site file; or HostName in ssh_config"
    code, error, _ = ddops(tmp_path, "status", "--host", "root@gpu-1.invalid")
    assert (code, error["hint"]) == (6, "correct the address")


def test_a_port_at_which_nobody_listens_is_told_with_the_systems_own_word(tmp_path: Path) -> None:
    code, error, _ = ddops(tmp_path, "status")
    assert (code, error["why"]) == (6, "127.0.0.1 port 1: Connection refused")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="no text"):
        config.read(path, site.Site)


@pytest.mark.parametrize(("key", "value"), [("soak", 0), ("soak", -1), ("soak", float("inf")), ("soak", float("nan"))])
def test_a_profile_cannot_do_without_a_soak(key: str, value: float, tmp_path: Path) -> None:
    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**values, key: value}))
    with pytest.raises(UsageError, match=rf"mine\.yaml:\d+: {key}"):
        profile.load(str(path))
