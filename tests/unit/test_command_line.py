"""The command line: codes, streams, words."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from ddops import __version__
from ddops.exit_codes import ExitCode, of_outcome


def ddops(*args: str, folder: Path, site: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "80"}
    if site:
        (folder / "site.yaml").write_text(site)
        environment["DDOPS_SITE"] = str(folder / "site.yaml")
    return subprocess.run(
        [sys.executable, "-m", "ddops", *args],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


UNREACHABLE = "hosts: {h: {address: 127.0.0.1, port: 1}}\nengine: {python: /p}\nmodel: /m\n"


def test_version(tmp_path: Path) -> None:
    assert ddops("--version", folder=tmp_path).stdout == f"ddops {__version__}\n"
    assert json.loads(ddops("version", "--json", folder=tmp_path).stdout) == {"version": __version__}


def ddops_to(stdout: IO[str], *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    argv, environment = [sys.executable, "-m", "ddops", *args], {"PATH": "/usr/bin:/bin", **variables}
    return subprocess.run(argv, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["version", "--json"], 1), (["--version"], 1), (["--help"], 1), (["faults", "list"], 1),
        (["status", "--json", "--host", "root@127.0.0.1:1"], 6), (["nothing", "--json"], 2),
    ],
)  # fmt: skip
def test_output_that_cannot_be_written_is_said_once_and_a_code_that_is_truer_stays(args: list[str], code: int) -> None:
    for variables in ({}, {"PYTHONUNBUFFERED": "1"}):
        with open("/dev/full", "w") as full:
            lost = ddops_to(full, *args, **variables)
        assert lost.returncode == code, lost.stderr
        assert "Traceback" not in lost.stderr
        assert "something unexpected" not in lost.stderr
        if code == 1:
            assert lost.stderr == "error: the output could not be written\n  No space left on device\n"


TELLS = """
import os, sys
from ddops.cli import app, outcome

what = {"outcome": "rolled-back", "seconds": 1.0, "host": {"live": 1}, "reason": {"what": "a gate"}}
app.application = lambda _: lambda *args, **more: outcome.tell("deploy", what, as_json=sys.argv[1] == "--json")
os._exit(app.end(app.run(sys.argv[1:])))  # as ddops ends
"""


@pytest.mark.parametrize("how", ["--json", "--plain"])
def test_an_outcome_that_cannot_be_written_keeps_its_exit_code(how: str) -> None:
    with open("/dev/full", "w") as full:
        for variables in ({}, {"PYTHONUNBUFFERED": "1"}):
            argv, environment = [sys.executable, "-c", TELLS, how], {"PATH": "/usr/bin:/bin", **variables}
            told = subprocess.run(argv, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            assert told.returncode == ExitCode.ROLLED_BACK, told.stderr
            assert "a gate" in told.stderr
            assert told.stderr.endswith("error: the output could not be written\n  No space left on device\n")


@contextmanager
def nobody() -> Iterator[IO[str]]:
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as closed:
        yield closed


def test_output_that_nobody_reads_is_no_error() -> None:
    with nobody() as closed:
        unread = ddops_to(closed, "version", "--json")
    assert (unread.returncode, unread.stderr) == (0, "")


FOLLOWS = """
import os, sys
from ddops.cli import app, outcome, output
from ddops.cli.progress import Progress

long = ["x" * 20000]  # more than is held back
what = {"outcome": "rolled-back", "seconds": 1.0, "host": {"live": 1}, "reason": {"what": "a gate"}, "verdicts": long}
def deploy(*_, **__):
    show = Progress()
    show({"event": "filed", "operation": 7})
    show({"event": "step-done", "step": "load", "seconds": 1.0})
    return outcome.tell("deploy", what, as_json=True)
app.application = lambda _: deploy
os._exit(app.end(app.run(sys.argv[1:])))
"""


@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_an_operation_is_followed_and_its_code_is_true_though_nobody_reads_on(variables: dict[str, str]) -> None:
    argv = [sys.executable, "-c", FOLLOWS]

    def followed(**streams: Any) -> subprocess.CompletedProcess[str]:
        kept = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        return subprocess.run(argv, env={"PATH": "/usr/bin:/bin", **variables}, text=True, check=False, **kept)

    with nobody() as closed, open("/dev/full", "w") as full:
        for stderr in (closed, full):
            deaf = followed(stderr=stderr)
            assert deaf.returncode == ExitCode.ROLLED_BACK
            assert json.loads(deaf.stdout)["outcome"] == "rolled-back"
        unread = followed(stdout=closed)
        assert unread.returncode == ExitCode.ROLLED_BACK
        assert "a gate" in unread.stderr
        assert followed(stdout=closed, stderr=closed).returncode == ExitCode.ROLLED_BACK


STREAMS = """
import os, sys
from ddops.cli import app, output

def logs(*_, **__):
    while True:
        output.stream("a line")
app.application = lambda _: logs
os._exit(app.end(app.run(sys.argv[1:])))
"""


def test_what_has_no_end_ends_where_nobody_reads_on() -> None:
    with nobody() as closed:
        argv = [sys.executable, "-c", STREAMS]
        ended = subprocess.run(argv, env={"PATH": "/usr/bin:/bin"}, stdout=closed, stderr=subprocess.PIPE, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_stream_that_was_closed_before_the_start_is_no_error(closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m ddops profile list {closed}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("b300" in done.stdout) is not closed.startswith(">")


@pytest.mark.parametrize(
    "verb",
    [
        "deploy",
        "diff",
        "render",
        "profile",
        "site",
        "rollback",
        "status",
        "doctor",
        "overlay",
        "history",
        "evidence",
        "logs",
        "adopt",
        "confirm",
        "version",
        "lab",
        "faults",
        "watch",
        "pause",
        "resume",
        "sudoers",
    ],
)
def test_every_verb_explains_itself_in_80_columns(verb: str, tmp_path: Path) -> None:
    done = ddops(verb, "-h", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage:")
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["deplyo"], 2, "No such command"),
        (["deploy"], 2, "Missing argument"),
        (["deploy", "labb"], 2, "did you mean 'lab'?"),
        (["deploy", "lab", "--budget", "many"], 2, "a whole number is wanted"),
        (["deploy", "lab", "--budget", "0"], 2, "takes 1 to 64"),
        (["deploy", "lab", "--budget", "-3"], 2, "takes 1 to 64"),
        (["deploy", "lab", "--soak", "soon"], 2, "write 90, 60s, 10m or 1h"),
        (["deploy", "lab", "--drill", "fire"], 2, "known are: illegal-access, garbage"),
        (["deploy", "lab", "--graphs"], 5, "CUDA graphs do not exist on a CPU"),
        (["deploy", "b300", "--max-running", "100", "--budget", "12"], 5, "100 x 13 = 1300 verify tokens"),
        (["deploy", "b300", "--algorithm", "DDTREE"], 5, "it needs a drafter, and the site file names none"),
        (["deploy", "b300", "--topk", "6"], 2, "NGRAM has no topk"),
        (["diff", "b300", "--algorithm", "DTREE"], 2, "did you mean DDTREE?"),
        (["render", "lab"], 2, "Missing option"),
        (["profile", "show", "lba"], 2, "did you mean 'lab'?"),
        (["adopt", "sglang.service"], 2, "which profile?"),
        (["deploy", "lab", "--host", "g"], 2, "did you mean"),
        (["status", "--host", "x"], 2, "the site has h"),
        (["status"], 6, "cannot connect to h"),
        (["rollback", "--host", "root@127.0.0.1:1"], 6, "cannot connect"),
    ],
)
def test_a_mistake_has_its_code_and_its_words(args: list[str], code: int, says: str, tmp_path: Path) -> None:
    done = ddops(*args, folder=tmp_path, site=UNREACHABLE.replace("{h:", "{h: {address: 127.0.0.1, port: 1}, gg:")
                 if "g" in args else UNREACHABLE)  # fmt: skip
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_an_error_is_one_json_document_too(tmp_path: Path) -> None:
    done = ddops("status", "--json", folder=tmp_path, site=UNREACHABLE)
    assert done.returncode == 6
    assert json.loads(done.stdout)["error"]["code"] == 6
    assert done.stdout.count("\n") == 1, "it may come after others that are a line each, as in a sweep"


def test_no_site_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    done = ddops("status", folder=tmp_path)
    assert done.returncode == 2
    assert "ddops.yaml" in done.stderr
    assert "hint: ddops site init" in done.stderr


@pytest.mark.parametrize(
    ("kind", "outcome", "code"),
    [
        ("deploy", "promoted", 0), ("deploy", "unchanged", 0), ("deploy", "rolled-back", 3),
        ("deploy", "rollback-failed", 4), ("deploy", "refused", 5), ("rollback", "rolled-back", 0),
        ("rollback", "rollback-failed", 4), ("rollback", "refused", 5), ("adopt", "adopted", 0),
        ("deploy", "not-better", 8), ("rollback", "not-better", 0), ("deploy", "measured", 0),
        ("deploy", "what is this", 1),
        ("rollback", "promoted", 5),
    ],
)  # fmt: skip
def test_every_outcome_has_its_code(kind: str, outcome: str, code: int) -> None:
    assert of_outcome(kind, {"outcome": outcome}) == code


def test_a_success_whose_engine_is_gone_is_none() -> None:
    assert of_outcome("deploy", {"outcome": "promoted", "host": {"active": "active"}}) == 0
    assert of_outcome("deploy", {"outcome": "promoted", "host": {"active": "failed"}}) == 4


def test_every_code_is_documented() -> None:
    table = (Path(__file__).parents[2] / "docs/exit-codes.md").read_text()
    for code in ExitCode:
        assert f"| {int(code)} |" in table, code


def test_render_writes_everything_that_a_host_gets_and_no_host_is_asked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = ddops("render", "b300", "--budget", "12", "--graphs", "-o", str(out), folder=tmp_path, site=UNREACHABLE)
    assert done.returncode == 0, done.stderr
    written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {line.removeprefix(f"{out}/") for line in done.stdout.splitlines()} == written
    manifest = json.loads((out / "manifest.json").read_text())
    assert written == {*manifest["files"], "manifest.json", "ddops-supervisor@.service"}
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    assert "warning: not DDTREE: it needs a drafter, and the site file names none; NGRAM drafts the tree" in done.stderr
    assert "warning: bad on another algorithm, sglang, overlay: DDTREE, field: CUDA error: an illegal" in done.stderr
    assert "verify width N = 12 + 1 = 13" in done.stderr

    again = ddops("render", "b300", "-o", str(out), folder=tmp_path, site=UNREACHABLE)
    assert again.returncode == 2
    assert "is not empty" in again.stderr
    as_json = ddops(
        "render", "b300", "--budget", "32", "-o", str(tmp_path / "b"), "--json", folder=tmp_path, site=UNREACHABLE
    )
    document = json.loads(as_json.stdout)
    assert (document["algorithm"], document["limits"]["max_running"], document["limits"]["lowered"]) == (
        "NGRAM",
        36,
        True,
    )


def test_profile_show_says_what_a_deploy_would_come_to_or_be_refused_with(tmp_path: Path) -> None:
    shown = ddops("profile", "show", "b300", "--budget", "32", "--json", folder=tmp_path, site=UNREACHABLE)
    found = json.loads(shown.stdout)
    assert found["limits.max_running"]["value"] == 64, "what the profile allows"
    reckoned = {key.removeprefix("reckoned."): each["value"] for key, each in found.items() if "reckoned" in key}
    assert reckoned == {"algorithm": "NGRAM", "verify_width": 33, "max_running": 36}

    refused = ddops("profile", "show", "b300", "--budget", "9999", folder=tmp_path, site=UNREACHABLE)
    assert (refused.returncode, "budget 9999 is out of range" in refused.stderr) == (2, True)
    assert "limits.max_running: 64" in refused.stdout, "the values are shown all the same"


def test_render_says_its_settings_first(tmp_path: Path) -> None:
    done = ddops("render", "b300", "--budget", "12", "--graphs", "-o", "out", folder=tmp_path, site=UNREACHABLE)
    assert done.stderr.splitlines()[0] == "budget 12, verify width 13, graphs on, NGRAM"


def test_a_rollback_that_reaches_nobody_names_the_way_without_a_client(tmp_path: Path) -> None:
    done = ddops("rollback", "--service", "kimi", folder=tmp_path, site=UNREACHABLE)
    assert done.returncode == 6
    assert "Connection refused; nothing was asked of the host" in done.stderr
    assert "on the host itself, as root: /var/lib/ddops/kimi/rollback" in done.stderr


def test_a_site_file_of_another_name_is_checked_by_it(tmp_path: Path) -> None:
    assert "then ddops site check --site own.yaml" in ddops("site", "init", "own.yaml", folder=tmp_path).stderr
    assert ddops("site", "init", folder=tmp_path).stderr.endswith("then ddops site check\n")


def test_profile_show_names_origins(tmp_path: Path) -> None:
    done = ddops("profile", "show", "b300", "--budget", "12", folder=tmp_path)
    assert "budget.default: 12  # --budget" in done.stdout.splitlines()
    assert "soak: 600.0  # default" in done.stdout.splitlines()
    document = json.loads(ddops("profile", "show", "b300", "--json", folder=tmp_path, site=UNREACHABLE).stdout)
    assert document["budget.default"] == {"value": 8, "origin": "default"}
    assert document["site.model"] == {"value": "/m", "origin": str(tmp_path / "site.yaml")}


def test_profile_list_names_them_all(tmp_path: Path) -> None:
    found = json.loads(ddops("profile", "list", "--json", folder=tmp_path).stdout)
    assert list(found) == ["b300", "lab", "rtx-pro-6000"]


def test_site_init_writes_a_file_that_is_read_and_never_overwrites_one(tmp_path: Path) -> None:
    done = ddops("site", "init", folder=tmp_path)
    path = tmp_path / ".config/ddops/site.yaml"
    assert (done.returncode, done.stdout) == (0, f"{path}\n")
    shown = ddops("profile", "show", "b300", "--host", "gpu-1", folder=tmp_path)
    assert f'site.model: "/models/Kimi-K2.6"  # {path}' in shown.stdout.splitlines()
    again = ddops("site", "init", folder=tmp_path)
    assert again.returncode == 5
    assert "is there already" in again.stderr


def test_site_check_tells_which_host_is_not_reached(tmp_path: Path) -> None:
    done = ddops("site", "check", "--json", folder=tmp_path, site=UNREACHABLE)
    assert done.returncode == 6
    host = json.loads(done.stdout)["hosts"][0]
    assert (host["host"], host["unreachable"]) == ("h", True)
    assert "; try by hand: ssh " in host["findings"][0]["text"]


def test_an_interrupt_that_is_dropped_on_its_way_comes_again() -> None:
    """As Python drops one that meets it in a callback of an import."""
    program = """
import signal
from ddops import cli
from ddops.cli import app

def drops(*_, **__):
    try:
        print("ready", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        signal.pause()

app.application = lambda _: drops
cli.main()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        client.send_signal(signal.SIGINT)
        try:
            _, said = client.communicate(timeout=20)
        finally:
            client.kill()
    assert client.returncode == 130
    assert said.startswith("error: interrupted\n")
