"""One lab host with a service on it, and the ways in which tests look at it: never by ddops' own words."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx

from ddops.lab import inside
from ddops.lab.lab import Lab

PUBLIC = 8000
_BUSY = 4  # so much slower may a machine be that runs other tests beside this one
STATE = "/var/lib/ddops/lab"


@dataclass
class Ran:
    """A finished ddops command."""

    code: int
    document: dict[str, Any]
    stderr: str

    def __repr__(self) -> str:
        kept = ("outcome", "reason", "rollback", "error", "steps")
        return f"exit {self.code}, {[self.document[k] for k in kept if k in self.document]}\n{self.stderr}"


@dataclass
class ServiceHost:
    """A host, the machine's view of it, and the ddops command aimed at it."""

    lab: Lab
    name: str
    environment: dict[str, str]
    profile: str = "lab"
    clients: list[subprocess.Popen[str]] = field(default_factory=list)
    said: list[IO[str]] = field(default_factory=list)  # what those clients wrote on stderr
    folder: Path | None = None  # another checkout of ddops than this one

    # ---- ddops

    def argv(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "ddops", *args, "--host", self.name]

    def ddops(self, *args: str, seconds: float = 240) -> Ran:
        """Runs a ddops command with --json; returns its exit code, document and stderr."""
        done = subprocess.run(
            [*self.argv(*args), "--json"],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Ran(done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr)

    def deploy(self, budget: int, *more: str, seconds: float = 240) -> Ran:
        """Deploys a budget with a short soak."""
        return self.ddops("deploy", self.profile, "--budget", str(budget), "--soak", "0.5s", *more, seconds=seconds)

    def start_deploy(self, budget: int, *more: str) -> subprocess.Popen[str]:
        """Starts such a deploy in the background."""
        return self.start("deploy", self.profile, "--budget", str(budget), "--soak", "0.5s", *more)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Starts a ddops command in the background; it is ended with the test."""
        said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read when a test has failed
        self.said.append(said)
        client = subprocess.Popen(
            [*self.argv(*args), "--json"],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            # a shell starts background jobs with SIGINT ignored, and they hand that on
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.clients.append(client)
        return client

    def at_moment(self, signal_name: str, delay_ms: float, *moment: str) -> subprocess.Popen[str]:
        """Has the host signal its supervisor at an exact moment (stub/moment.py tells which there are)."""
        script = (Path(__file__).parent / "stub/moment.py").read_text()
        command = ("python3", "-c", script, signal_name, str(delay_ms), *moment)
        watcher = subprocess.Popen(
            inside.exec_command(self.lab.host(self.name), *command), stdout=subprocess.PIPE, text=True
        )
        self.clients.append(watcher)
        assert watcher.stdout
        assert watcher.stdout.readline() == "ready\n"
        return watcher

    def at_step(self, signal_name: str, operation: int, step: str) -> subprocess.Popen[str]:
        """Has the host signal its supervisor at the beginning of a step."""
        return self.at_moment(signal_name, 0, "step", f"{STATE}/operations/{operation:06d}.jsonl", step)

    @staticmethod
    def finish(client: subprocess.Popen[str], seconds: float = 90) -> tuple[int, dict[str, Any]]:
        """Waits for a client that was started; returns its exit code and its document."""
        output, _ = client.communicate(timeout=_BUSY * seconds)
        return client.returncode, json.loads(output)

    def end_clients(self) -> None:
        for client in self.clients:
            if client.poll() is None:
                client.kill()
            client.communicate()

    # ---- the host, as root on it

    def on(self, *command: str, check: bool = True, seconds: float = 60) -> str:
        """Runs a command in the host, without its network; returns its output."""
        done = self.lab.exec(self.name, *command, seconds=seconds)
        assert not check or done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
        return str(done.stdout)

    def file(self, path: str) -> str | None:
        """Returns a file of the host, None where there is none."""
        done = self.lab.exec(self.name, "cat", path)
        return str(done.stdout) if done.returncode == 0 else None

    def write(self, path: str, text: str) -> None:
        self.on("python3", "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", path, text)

    def script(self, **by_width: dict[str, Any]) -> None:
        """Tells the stub engines what to do: script(w9={...}, plain={...})."""
        self.write("/etc/stub.json", json.dumps({k.lstrip("w") if k != "plain" else k: v for k, v in by_width.items()}))

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        output = self.on("systemctl", "show", unit, "--property=" + ",".join(properties))
        return dict(line.partition("=")[::2] for line in output.splitlines())

    def main_pid(self, unit: str) -> int:
        return int(self.show(unit, "MainPID")["MainPID"] or 0)

    def active(self, unit: str) -> str:
        return self.on("systemctl", "is-active", unit, check=False).strip()

    def journal(self, unit: str) -> list[dict[str, Any]]:
        """Returns the entries of a unit: what it wrote and what systemd wrote of it."""
        output = self.on("journalctl", "-u", unit, "-o", "json", "--all", "--no-pager")
        return [json.loads(line) for line in output.splitlines()]

    def lines(self, unit: str) -> list[str]:
        """Returns the unit's own lines."""
        return [str(e["MESSAGE"]) for e in self.journal(unit) if e.get("_TRANSPORT") == "stdout"]

    def starts(self, unit: str) -> int:
        """Counts how often systemd started a unit, by systemd's own lines."""
        return sum("Started" in str(e.get("MESSAGE")) for e in self.journal(unit) if e.get("_PID") == "1")

    def boots(self) -> str:
        return self.on("readlink", "/etc/systemd/system/lab.service").strip()

    def pointer(self, name: str) -> int | None:
        text = self.file(f"{STATE}/{name}")
        return int(json.loads(text)["release"]) if text else None

    def steps(self, operation: int) -> list[dict[str, Any]]:
        """Returns an operation's step log, torn lines left out."""
        events = []
        for line in (self.file(f"{STATE}/operations/{operation:06d}.jsonl") or "").splitlines():
            with contextlib.suppress(ValueError):
                events.append(json.loads(line))
        return events

    def began(self, step: str, operation: int) -> bool:
        return any(e["event"] == "step" and e["step"] == step for e in self.steps(operation))

    def outcome(self, operation: int) -> dict[str, Any] | None:
        text = self.file(f"{STATE}/operations/{operation:06d}.json")
        return json.loads(text) if text else None

    def bring_down(self, unit: str) -> None:
        """Kills the live engine while automatic action is paused: nothing brings it back by itself."""
        assert self.ddops("pause").code == 0
        self.on("systemctl", "kill", "-s", "KILL", unit)
        wait_for(lambda: self.active(unit) == "failed", 10, f"{unit} is down")

    def assert_whole(self, release: int) -> None:
        """Asserts that this release alone serves, boots and is known-good, and that nothing of another is left."""
        unit = f"lab-{release:04d}.service"
        assert self.ask() == "Paris"
        assert self.pointer("known-good") == self.pointer("live") == release
        assert self.boots() == unit
        running = self.on("systemctl", "list-units", "--state=active", "--plain", "--no-legend", "lab-[0-9]*.service")
        assert [line.split()[0] for line in running.splitlines()] == [unit]
        left = self.on("find", "/etc/systemd/system", "/run/systemd/system", "-name", "lab-[0-9]*.service")
        assert left.split() == [f"/etc/systemd/system/{unit}"]
        assert self.file("/run/ddops/lab/front-target") is None
        assert self.ddops("status").code == 0

    def last_words(self) -> str:
        """Returns what tells why a test failed: the end of the supervisor's journal and of the last step logs."""
        script = (
            "journalctl -u 'ddops-supervisor@*' -u 'lab-*' --no-pager -n 40 -o short-precise | cut -c1-300; "
            f"tail -n 15 $(ls {STATE}/operations/*.jsonl | tail -n 2) | cut -c1-300; "
            "systemctl list-units --all --plain --no-legend 'lab*' 'sglang*' 'ddops*'; ss -tnp; ss -tlnp; uptime"
        )
        clients = "".join(f"client {n} said:\n{_rewound(said).read()}" for n, said in enumerate(self.said))
        try:
            return str(self.lab.exec(self.name, "sh", "-c", script, seconds=30).stdout) + clients
        except Exception as error:  # noqa: BLE001 - the test's own failure is what counts
            return f"it tells nothing: {error!r}\n{clients}"

    # ---- the public port, as a user

    @property
    def url(self) -> str:
        return f"http://{self.lab.address(self.name)}:{PUBLIC}"

    def ask(self, country: str = "France", seconds: float = 20) -> str | None:
        """Asks for a capital at the public port; None where the port refuses or resets."""
        messages = [{"role": "user", "content": f"What is the capital of {country}?"}]
        answer = self._post("/v1/chat/completions", {"messages": messages, "max_tokens": 12}, seconds)
        return answer and str(answer["choices"][0]["message"]["content"])

    def complete(self, prompt: str, tokens: int, seconds: float = 30) -> str | None:
        """Has a text completed at the public port; None where the port refuses or resets."""
        answer = self._post("/v1/completions", {"prompt": prompt, "max_tokens": tokens}, seconds)
        return answer and str(answer["choices"][0]["text"])

    def _post(self, path: str, body: dict[str, Any], seconds: float) -> Any:
        try:
            answer = httpx.post(f"{self.url}{path}", json={"model": "lab", "temperature": 0, **body}, timeout=seconds)
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            return None
        return answer.json() if answer.status_code == 200 else None


def _rewound(file: IO[str]) -> IO[str]:
    file.seek(0)
    return file


@contextlib.contextmanager
def unchanged(host: ServiceHost) -> Iterator[None]:
    """Fails the test where the body changes units, pointers or the processes that serve."""
    before = _state_of(host)
    yield
    after = _state_of(host)
    assert after == before, sorted(set(before) ^ set(after))


def _state_of(host: ServiceHost) -> list[str]:
    files = "find /etc/systemd /run/systemd/system -printf '%p %l %s %T@\\n'"
    pointers = f"cd {STATE} 2>/dev/null && sha256sum known-good live front-target rollback agent.pyz 2>/dev/null"
    show = "systemctl show 'lab*' 'sglang*' 'ddops-supervisor*' --property=Id,MainPID,ActiveState"
    one_a_line = """awk 'BEGIN { RS = ""; FS = "\\n" } { $1 = $1; print }'"""
    # systemd lists units, and find files, in no order of meaning
    return sorted(host.on("sh", "-c", f"{files}; {pointers}; {show} | {one_a_line}").splitlines())


def wait_for(condition: Any, seconds: float, what: str) -> Any:
    """Waits until the condition gives something true and returns it; fails the test at the deadline.

    ``seconds`` are a quiet machine's; a busy one gets some more.
    """
    end = time.monotonic() + _BUSY * seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds:g} s")


def environment(lab: Lab, site: Path) -> dict[str, str]:
    """Returns the environment in which ddops finds the lab's site and nothing of the user's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DDOPS_", "XDG_"))}
    own = {"DDOPS_SITE": site, "DDOPS_LAB_DIR": lab.config.state, "XDG_DATA_HOME": site.parent / "data"}
    return {**kept, **{name: str(path) for name, path in own.items()}, "NO_COLOR": "1"}
