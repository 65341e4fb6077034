"""How each tool is started for the task, in an environment of its own that is made at the first run."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.service_host import ServiceHost

_HERE = Path(__file__).parent
_BIN = _HERE / ".venv/bin"


@dataclass(frozen=True)
class Tool:
    """A tool, its command line, and the one that only starts it."""

    name: str
    version: list[str]
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, host: ServiceHost, port: int, word: str) -> tuple[float, float]:
        """Does the task with ``word`` as the service's answer; returns the command's wall time and CPU, in seconds."""
        service = {"NAME": service_of(self), "PORT": str(port), "WORD": word}
        words = [part.format(**service) for part in self.words]
        return timed(words, {**host.environment, **self.environment, **{f"PEER_{k}": v for k, v in service.items()}})


def service_of(tool: Tool) -> str:
    """Returns the name of the service that a tool keeps."""
    return "peer-" + tool.name.replace(" ", "-").replace(",", "")


def timed(argv: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Runs a command; returns its wall time and the CPU of it and its children. A failure ends the benchmark."""
    began, before = time.monotonic(), _children_cpu()
    done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wall, cpu = time.monotonic() - began, _children_cpu() - before
    if done.returncode:
        raise SystemExit(f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return wall, cpu


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def install() -> None:
    """Makes the environment of pyinfra and Ansible where it is missing; raises CalledProcessError without an index."""
    if (_BIN / "ready").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(_BIN.parent)], check=True)
    subprocess.run([str(_BIN / "pip"), "install", "-q", "-r", str(_HERE / "requirements.txt")], check=True)
    (_BIN / "ready").touch()


def tools(host: ServiceHost, folder: Path) -> list[Tool]:
    """Returns the tools, aimed at the host; ``folder`` takes their inventories."""
    config, address = host.lab.config, host.lab.address(host.name)
    (folder / "inventory.py").write_text(
        f"hosts = [({address!r}, {{'ssh_user': 'root', 'ssh_key': {str(config.key)!r}, "
        f"'ssh_known_hosts_file': {str(config.known_hosts)!r}, 'ssh_strict_host_key_checking': 'yes', "
        f"'ssh_look_for_keys': False, 'ssh_allow_agent': False}})]\n"
    )
    (folder / "inventory.ini").write_text(
        f"{address} ansible_user=root ansible_ssh_common_args='-F {config.ssh_config}' "
        "ansible_python_interpreter=/usr/bin/python3\n"
    )
    playbook = [str(_BIN / "ansible-playbook"), "-i", str(folder / "inventory.ini"), str(_HERE / "with_ansible.yaml")]
    playbook += ["-e", "name={NAME} port={PORT} word={WORD}"]
    quiet = {"ANSIBLE_HOME": str(folder / "ansible"), "ANSIBLE_LOCALHOST_WARNING": "0"}
    pyinfra = [str(_BIN / "pyinfra"), "-y", str(folder / "inventory.py"), str(_HERE / "with_pyinfra.py")]
    own = [sys.executable, "-m", "benchmarks.peers.with_ddops", host.environment["DDOPS_SITE"], host.name]
    ansible = [str(_BIN / "ansible-playbook"), "--version"]
    return [
        Tool("ddops", [sys.executable, "-m", "ddops", "--version"], [*own, "{NAME}", "{PORT}", "{WORD}"]),
        Tool("pyinfra", [str(_BIN / "pyinfra"), "--version"], pyinfra),
        Tool("ansible", ansible, playbook, quiet),
        Tool("ansible, pipelining", ansible, playbook, {**quiet, "ANSIBLE_PIPELINING": "1"}),
    ]
