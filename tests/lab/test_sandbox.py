"""The sandbox under attack, and the coding score of known right, wrong, hanging and hostile programs.

The sandbox runs on a real host, through the agent's own module; what it left is looked for on the host itself.
"""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ddops
from ddops import suites
from ddops.lab.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("sandbox")]

SECRETS = {
    "/var/lib/ddops/lab/secret": "of-the-service",
    "/etc/ddops/secret": "of-the-site",
    "/opt/model/secret": "of-the-model",
    "/root/secret": "of-root",
}
_RUN = """
import json, sys
sys.path.insert(0, "/opt/agent")
from agent import sandbox
limits = sandbox.Limits(seconds=float(sys.argv[2]))
try:
    ran = sandbox.run(["/usr/bin/python3", "-I", "-S", "-c", sys.argv[1]], b"", limits)
except sandbox.SystemdError as error:
    sys.exit(f"{error.what}: {error.why}")
print(json.dumps([ran.output.decode(errors="replace"), ran.code, ran.stopped]))
"""


class Host:
    """A lab host with the agent's modules and secrets that anybody there may read."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def on(self, *words: str, check: bool = True) -> str:
        done = self.lab.exec("box", *words, seconds=60)
        assert not check or done.returncode == 0, done.stderr
        return str(done.stdout)

    def put(self, files: dict[str, bytes]) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path, data in files.items():
                info = tarfile.TarInfo(path.lstrip("/"))
                info.size, info.mode = len(data), 0o644
                tar.addfile(info, io.BytesIO(data))
        text = base64.b64encode(packed.getvalue()).decode()
        for number in range(0, len(text), 100_000):  # an argument holds 128 KiB
            chunk, mode = text[number : number + 100_000], "ab" if number else "wb"
            self.on("python3", "-c", f"import sys; open('/root/t', {mode!r}).write(sys.argv[1].encode())", chunk)
        self.on("sh", "-c", "base64 -d /root/t | tar -xz -C / --no-same-owner; rm /root/t")

    def attack(self, program: str, seconds: float = 10) -> tuple[str, int | None, str]:
        output, code, stopped = json.loads(self.on("python3", "-c", _RUN, program, str(seconds)))
        return output, code, stopped

    def processes(self) -> set[str]:
        return set(self.on("ps", "-eo", "args=").splitlines())


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[Host]:
    lab.up("box")
    found = Host(lab)
    agent = Path(ddops.__file__).parent / "agent"
    files = {f"/opt/agent/agent/{p.relative_to(agent)}": p.read_bytes() for p in agent.rglob("*.py")}
    found.put(files | {path: text.encode() for path, text in SECRETS.items()})
    found.on("chmod", "755", "/root")  # as readable as a careless administrator can make it
    try:
        yield found
    finally:
        lab.down("box")


def test_an_honest_program_runs(host: Host) -> None:
    program = (
        "import tempfile\nwith tempfile.TemporaryFile() as f:\n f.write(b'x' * 99)\n print(sum(range(10)), f.tell())"
    )
    assert host.attack(program) == ("45 99\n", 0, "")
    assert host.attack("import sys; sys.exit(3)") == ("", 3, "")


def test_nothing_of_the_host_can_be_read(host: Host) -> None:
    program = (
        f"paths = {list(SECRETS)!r}"
        + """
import os, json
found, names = [], []
for folder, below, files in os.walk("/"):
    below[:] = [b for b in below if folder != "/" or b not in ("proc", "usr")]
    for name in files:
        path = os.path.join(folder, name)
        names.append(path)
        if not path.startswith("/dev/"):
            try:
                found.append(open(path, errors="replace").read())
            except OSError:
                pass
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
direct = []
for path in paths:
    for root in ("", "/proc/1/root", "/proc/self/root", "/box/../..", "/run/systemd/incoming"):
        try:
            direct.append(open(root + path).read())
        except OSError:
            pass
print(json.dumps([names, any("of-the" in f or "of-root" in f for f in found), direct, others, dict(os.environ)]))
"""
    )
    output, _, stopped = host.attack(program, 20)
    assert stopped == ""
    names, secret, direct, others, environment = json.loads(output)
    assert not secret
    assert direct == []
    assert others == [], "it sees other processes"
    # what newer systemds bind: the host's os-release, which lies in /usr too, and sockets of journald, to which nothing
    # can be sent (test_there_is_no_network)
    told = [n for n in names if not n.startswith(("/dev/", "/run/systemd/journal/")) and not n.endswith("/os-release")]
    assert told == ["/etc/ld.so.cache"]
    assert set(environment) <= {"TMPDIR", "PWD", "LC_CTYPE", "_", "SHLVL", "OLDPWD"}
    for path, text in SECRETS.items():
        assert host.on("cat", path) == text, "there was nothing to steal"


def test_nothing_can_be_written_but_a_little_in_its_own_folder(host: Host) -> None:
    program = """
import os, json
wrote = []
for folder, below, _ in os.walk("/"):
    below[:] = [b for b in below if folder != "/" or b != "proc"]
    try:
        open(os.path.join(folder, "planted"), "w").write("x")
        wrote.append(folder)
    except OSError:
        pass
size = 0
for number in range(1000):
    try:
        with open(f"/box/{number}", "wb", buffering=0) as file:
            while number < 900:
                size += file.write(b"x" * 65536)
    except OSError:
        pass
biggest = max(entry.stat().st_size for entry in os.scandir("/box"))
print(json.dumps([wrote, size, biggest, len(os.listdir("/box"))]))
"""
    output, _, _ = host.attack(program, 20)
    wrote, size, biggest, files = json.loads(output)
    assert wrote == ["/box"]
    assert size <= 16 << 20
    assert biggest == 4 << 20
    assert files <= 256
    assert host.on("find", "/", "-xdev", "-name", "planted", "-not", "-path", "/proc/*") == ""
    assert host.attack("import os; print(os.listdir('/box'))")[0] == "[]\n", "the next program finds it"


def test_there_is_no_network(host: Host) -> None:
    host.on("systemd-run", "--unit=listener", "python3", "-m", "http.server", "8111")
    program = """
import json, socket
got = []
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, socket.AF_PACKET):
    try:
        s = socket.socket(family, socket.SOCK_STREAM if family != socket.AF_PACKET else socket.SOCK_RAW)
        got.append(int(family))
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", 8111), 2)
    got.append("connected")
except OSError:
    pass
print(json.dumps(got))
"""
    try:
        assert json.loads(host.attack(program)[0]) == []
        assert host.on("python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 8111), 5)") == ""
    finally:
        host.on("systemctl", "stop", "listener")


def test_a_fork_bomb_stays_small_and_dies_with_the_unit(host: Host) -> None:
    bomb = """
import os, time
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0.01)
"""
    before = len(host.processes())
    assert host.attack(bomb, 2) == ("", None, "time")
    assert len(host.processes()) <= before + 2
    count = (
        "import os, time\nn = 0\ntry:\n while n < 99:\n  if os.fork() == 0:\n   time.sleep(9)\n   os._exit(0)\n  n += 1"
    )
    assert host.attack(f"{count}\nexcept OSError:\n pass\nprint(n)") == ("7\n", 0, "")
    left = "import os, time\nif os.fork() == 0:\n os.setsid()\n time.sleep(1000)\nprint('gone')"
    assert host.attack(left) == ("gone\n", 0, "")
    assert not any("time.sleep(1000)" in line for line in host.processes())


def test_memory_ends_where_the_limit_is(host: Host) -> None:
    output, code, _ = host.attack("try:\n x = bytearray(2 << 30)\n print('got it')\nexcept MemoryError:\n print('no')")
    assert (output, code) == ("no\n", 0)
    many = """
import os, time
print("begun", flush=True)
moment = time.monotonic() + 3
for _ in range(6):
    if os.fork() == 0:
        break
x = b"x" * (100 << 20)
if time.monotonic() < moment:
    time.sleep(moment - time.monotonic())
    print("kept", flush=True)
"""
    # one that the kernel kills makes room for the next: what counts is who has theirs at one moment, not at any
    output, _, _ = host.attack(many, 20)
    assert output.startswith("begun\n")
    assert output.count("kept") < 3, "together they have more than one may have"


@pytest.mark.parametrize(
    "how", ["while True: pass", "import time; time.sleep(1000)", "import os; os.close(1); input()"]
)
def test_time_ends_and_no_signal_is_asked(host: Host, how: str) -> None:
    deaf = "import signal\nfor s in set(signal.Signals) - {9, 19}: signal.signal(s, signal.SIG_IGN)\n"
    hang = how.replace("input()", "\nwhile True: pass")
    assert host.attack(deaf + hang, 2) == ("", None, "time")
    assert host.on("systemctl", "list-units", "--all", "--plain", "--no-legend", "ddops-sandbox-*") == ""


def test_output_ends_where_the_limit_is(host: Host) -> None:
    output, code, stopped = host.attack("while True: print('x' * 4096)")
    assert (len(output), code, stopped) == (1 << 20, None, "output")


def test_no_signal_leaves_it_and_no_privilege_is_gained(host: Host) -> None:
    victim = host.on("systemd-run", "--unit=victim", "-p", "DynamicUser=yes", "sleep", "1000", check=False)
    assert victim == ""
    program = """
import json, os
done = []
def tried(name, what, *args):
    try:
        what(*args)
        done.append(name)
    except (OSError, PermissionError):
        pass
for pid in (-1, 1, os.getppid(), os.getpid()):
    tried(f"kill {pid}", os.kill, pid, 9)
tried("setuid", os.setuid, 0)
tried("chroot", os.chroot, "/box")
tried("nice", os.setpriority, os.PRIO_PROCESS, 0, -20)
tried("mknod", os.mknod, "/box/null", 0o020666, os.makedev(1, 3))
tried("kmsg", os.open, "/dev/kmsg", os.O_RDONLY)
print(json.dumps([done, os.getuid(), open("/proc/self/status").read()]))
"""
    try:
        done, uid, status = json.loads(host.attack(program)[0])
        assert done == []
        assert uid > 60000
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == 0
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
        assert host.on("systemctl", "is-active", "victim").strip() == "active"
    finally:
        host.on("systemctl", "stop", "victim")


def test_a_sandbox_that_cannot_be_made_runs_nothing(host: Host) -> None:
    broken = _RUN.replace("limits =", "sandbox.PROPERTIES += ('NoSuchProperty=1',)\nlimits =")
    ran = host.lab.exec("box", "python3", "-c", broken, "open('/box/ran', 'w')", "5", seconds=30)
    assert ran.returncode == 1
    assert "the sandbox cannot be made" in ran.stderr
    assert "NoSuchProperty" in ran.stderr


HOSTILE = {
    "covered": "import os\nos._exit(0)\ndef covered(shifts): pass",
    "expand": "import os\nfor fd in range(3, 32):\n try: os.write(fd, b'[{}]')\n except OSError: pass\n"
    "os._exit(0)\ndef expand(text): pass",
    "depths": "class Yes(list):\n def __eq__(self, other): return True\ndef depths(parents): return Yes()",
    "top_words": "def top_words(text, k):\n while True: pass",
    "hops": "def hops(grid): raise SystemExit",
    "replay": "def replay(commands): return float('nan')",
    "roman_sum": "def roman_sum(numerals): return {1, 2}",
    "turn_ring": "import sys\ndef turn_ring(matrix, k):\n for row in matrix: row.clear()",
    "zigzag": "print('[]' * 9999)\nimport json\njson.dumps = lambda *a, **k: '[]'\ndef zigzag(numbers): return 1",
    "order": "this is no Python\ndef order(tasks): pass",
}
VERDICTS = {
    "covered": "ended",
    "expand": "ended",
    "depths": "wrong",
    "top_words": "time",
    "hops": "raised",
    "replay": "wrong",
    "roman_sum": "raised",
    "turn_ring": "wrong",
    "zigzag": "ended",
    "order": "raised",
    "stamps": "no program",
    "newest": "no answer",
}
_SCORE = """
import json, sys
sys.path.insert(0, "/opt/agent")
from agent.errors import GateFailed
from agent.suites.coding import coding
settings = json.load(open("/opt/settings.json"))
answers = json.load(open("/opt/answers.json"))
class Scripted:
    def chat(self, prompt, tokens, timeout, *, stream, more):
        name = prompt.split("`")[1].partition("(")[0]
        if answers[name] is None:
            raise GateFailed("no answer")
        return answers[name]
print(json.dumps(coding(Scripted(), settings, 5)))
"""


def score(host: Host, answers: dict[str, str | None], **thresholds: float) -> dict[str, Any]:
    settings = {"problems": suites.coding(), "tokens": 9, "concurrency": 2, "seconds": 3, "request": {}, **thresholds}
    files = {"/opt/settings.json": settings, "/opt/answers.json": answers}
    host.put({path: json.dumps(value).encode() for path, value in files.items()})
    found: dict[str, Any] = json.loads(host.on("python3", "-c", _SCORE))
    return found


def test_right_wrong_hanging_and_hostile_programs_get_exactly_their_scores(host: Host) -> None:
    right = "```python\n" + (Path(__file__).parents[1] / "unit/suites/solutions.py").read_text() + "```"
    names = [problem["name"] for problem in suites.coding()]
    everything: dict[str, str | None] = dict.fromkeys(names, right)
    found = score(host, everything, gate=5, right=1)
    assert {j["name"]: j["verdict"] for j in found["judged"]} == dict.fromkeys(names, "right")
    assert (found["right"], found["gate"], found["problems"]) == (len(names), 5, [])

    mixed = everything | {name: f"```python\n{program}\n```" for name, program in HOSTILE.items()}
    mixed |= {"stamps": "I would use dynamic programming.", "newest": None}
    found = score(host, mixed, gate=1, right=(len(names) - 11) / len(names))
    assert {j["name"]: j["verdict"] for j in found["judged"]} == dict.fromkeys(names, "right") | VERDICTS
    assert (found["right"], found["of"], found["gate"]) == (len(names) - 12, len(names), 0)
    wanted = len(names) - 11
    assert found["problems"] == [
        "0 of the first 5 are right, 1 are wanted",
        f"{wanted - 1} of {len(names)} are right, {wanted} are wanted",
    ]
