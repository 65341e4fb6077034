"""SSH as it is in the field: keys, users, sudo, agents, delay, a host behind another one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from .service_host import Ran, ServiceHost, unchanged, wait_for

pytestmark = pytest.mark.lab


def through(host: ServiceHost, folder: Path, **entry: Any) -> ServiceHost:
    """Returns the host with other values in its entry of the site file; None takes a value away."""
    site = yaml.safe_load(Path(host.environment["DDOPS_SITE"]).read_text())
    values = {**site["hosts"][host.name], **entry}
    site["hosts"][host.name] = {k: v for k, v in values.items() if v is not None}
    path = folder / "other-site.yaml"
    path.write_text(yaml.safe_dump(site))
    return replace(host, environment={**host.environment, "DDOPS_SITE": str(path)})


def let_in(host: ServiceHost) -> list[str]:
    """Returns who was let in by the host's sshd: user and address."""
    lines = host.on("journalctl", "-t", "sshd", "-t", "sshd-session", "-o", "cat", "--no-pager")
    return re.findall(r"Accepted publickey for (\S+ from \S+)", lines)


def fingerprint(host: ServiceHost) -> str:
    return host.on("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub").split()[1]


def accept(hint: str) -> None:
    """Runs the command that a refusal names."""
    subprocess.run(["sh", "-c", hint.partition("then: ")[2]], check=True, capture_output=True)


def test_an_unknown_or_changed_host_key_is_refused_until_it_is_accepted(adopted: ServiceHost, tmp_path: Path) -> None:
    host = through(adopted, tmp_path, known_hosts=str(tmp_path / "known hosts"))
    before, first = let_in(host), fingerprint(host)
    ran = host.ddops("status")
    assert ran.code == 5
    assert first in ran.document["error"]["why"]
    checked = host.ddops("site", "check")
    assert (checked.code, checked.document["hosts"][0]["findings"][0]["name"]) == (5, "ssh")
    assert let_in(host) == before, "nobody logs in to a host that is not known"
    accept(ran.document["error"]["hint"])
    assert host.ddops("status").code == 0

    key = "/etc/ssh/ssh_host_ed25519_key"
    host.on("sh", "-c", f"rm {key}*; ssh-keygen -q -t ed25519 -N '' -f {key}; systemctl restart ssh")
    before, second = let_in(host), fingerprint(host)
    ran = host.ddops("rollback")
    assert ran.code == 5
    assert f"shows ssh-ed25519 {second}" in ran.document["error"]["why"]
    assert f"has ssh-ed25519 {first}" in ran.document["error"]["why"]
    assert let_in(host) == before
    accept(ran.document["error"]["hint"])
    assert host.ddops("status").code == 0
    assert len(let_in(host)) == len(before) + 1


def as_ops(host: ServiceHost, *words: str) -> int:
    """Runs a command with sudo as the user ops; returns its exit code, 1 where sudo refuses."""
    return int(host.lab.exec(host.name, "runuser", "-u", "ops", "--", "sudo", "-n", *words, seconds=30).returncode)


def test_a_user_needs_sudo_without_a_password_and_is_told_the_rule(adopted: ServiceHost, tmp_path: Path) -> None:
    nobody = through(adopted, tmp_path, user="nobody-here")
    ran = nobody.ddops("status")
    assert ran.code == 6
    assert "nobody-here" in ran.document["error"]["what"]

    ops = through(adopted, tmp_path, user="ops")
    ops.write("/etc/sudoers.d/ops", "ops ALL=(ALL) PASSWD: ALL\n")
    with unchanged(ops):
        assert "a password is required" in ops.ddops("status").document["error"]["why"]
        assert ops.ddops("site", "check").document["hosts"][0]["findings"][0]["name"] == "root"
    ops.on("rm", "/etc/sudoers.d/ops")
    with unchanged(ops):
        ran = ops.deploy(8)
    assert ran.code == 5
    assert ops.outcome(2) is None
    assert "ddops sudoers ops prints" in ran.document["error"]["hint"]
    text = subprocess.run([sys.executable, "-m", "ddops", "sudoers", "ops"], check=True, capture_output=True, text=True)
    ops.write("/etc/sudoers.d/ddops", text.stdout)
    ops.on("chmod", "440", "/etc/sudoers.d/ddops")
    ops.on("visudo", "-c", "-f", "/etc/sudoers.d/ddops")
    ran = ops.deploy(8)
    assert ran.code == 0, ran
    assert ops.boots() == "lab-0001.service"
    assert let_in(ops)[-1].startswith("ops from")

    rule = text.stdout.splitlines()[-1].partition("NOPASSWD: ")[2]
    allowed = shlex.split(rule.replace("'", "\\'"))
    assert as_ops(ops, *allowed[:-1], "1") != 0, "another agent than this one could be sent"
    for words in (["id"], ["/usr/bin/python3", "-IS", "-c", "pass"], [*allowed, "more"], ["sh", "-c", "true"]):
        assert as_ops(ops, *words) == 1, words
    assert as_ops(ops, *allowed) == 0

    ops.on("sh", "-c", "(echo 'echo welcome'; cat ~ops/.bashrc) > /tmp/rc; cp /tmp/rc ~ops/.bashrc")
    ran = ops.ddops("status")
    assert ran.code == 5
    assert ran.document["error"]["why"] == "welcome"


class Counting:
    """A TCP relay on this machine that counts how often one side spoke and then the other: serial round trips."""

    def __init__(self, address: str) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = self.turns = 0
        self._host_spoke_last = True
        threading.Thread(target=self._run, args=(address,), daemon=True).start()

    def _run(self, address: str) -> None:
        while True:
            client, _ = self._listener.accept()
            self.connections += 1
            host = socket.create_connection((address, 22))
            for pair in ((client, host, False), (host, client, True)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, from_host: bool) -> None:
        source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # the other end is gone, or reset it
            while data := source.recv(1 << 16):
                self.turns += self._host_spoke_last and not from_host
                self._host_spoke_last = from_host
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_a_host_that_is_far_away_is_deployed_to_in_few_round_trips(adopted: ServiceHost, tmp_path: Path) -> None:
    relay, known = Counting(adopted.lab.address(adopted.name)), tmp_path / "known_hosts"
    key = adopted.on("cat", "/etc/ssh/ssh_host_ed25519_key.pub").split()
    known.write_text(f"[127.0.0.1]:{relay.port} {key[0]} {key[1]}\n")
    far = through(adopted, tmp_path, address="127.0.0.1", port=relay.port, known_hosts=str(known))
    adopted.lab.delay(adopted.name, 300)
    ran = far.deploy(8)
    assert ran.code == 0, ran
    assert far.boots() == "lab-0001.service"
    assert relay.connections == 1
    assert relay.turns <= 8, "SSH's own handshake among them"
    relay.turns = 0
    assert far.deploy(8).document["outcome"] == "unchanged"
    assert relay.turns <= 6


def test_a_host_behind_another_one_is_reached_with_strict_keys_on_both(adopted: ServiceHost, tmp_path: Path) -> None:
    lab = adopted.lab
    lab.up("jump")
    gate, target = lab.address("jump"), lab.address(adopted.name)
    lines = lab.config.known_hosts.read_text().splitlines(keepends=True)
    known = tmp_path / "known_hosts"
    host = through(adopted, tmp_path, jump=f"root@{gate}", known_hosts=str(known))
    for missing, other in ((gate, target), (target, gate)):
        known.write_text("".join(line for line in lines if f",{other} " in line))
        before = let_in(adopted)
        ran = host.ddops("status")
        assert ran.code == 5
        assert f"the host key of {missing} is not known" in ran.document["error"]["what"]
        assert let_in(adopted) == before
        accept(ran.document["error"]["hint"])
        assert host.ddops("status").code == 0
        assert let_in(adopted) == [*before, f"root from {gate}"]

    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(
        f"Host {adopted.name}\n HostName {target}\n ProxyJump gate\nHost gate\n HostName {gate}\n"
        f'Host *\n User root\n IdentityFile {lab.config.key}\n UserKnownHostsFile "{known}"\n'
    )
    plain = through(adopted, tmp_path, address=adopted.name, user=None, identity_file=None, known_hosts=None)
    mine = replace(plain, environment={**plain.environment, "HOME": str(tmp_path)})
    before = let_in(adopted)
    ran = mine.deploy(8)
    assert ran.code == 0, ran
    assert let_in(adopted) == [*before, f"root from {gate}"]
    known.write_text("".join(line for line in lines if f",{target} " in line))
    assert mine.ddops("status").code == 5
    lab.down("jump")
    known.write_text("".join(lines))
    ran = mine.ddops("status")
    assert ran.code == 6
    assert "gate, on the way to stub" in ran.document["error"]["what"]


WORDS = 'it\'s "one" $HOME'


def locked_key(host: ServiceHost, folder: Path) -> Path:
    """Returns a key that root may log in with and that needs the passphrase."""
    path = folder / "locked key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", WORDS, "-f", str(path)], check=True)
    key = Path(f"{path}.pub").read_text().strip()
    host.on("sh", "-c", f"mkdir -p -m 700 /root/.ssh; echo '{key}' >> /root/.ssh/authorized_keys")
    return path


@contextlib.contextmanager
def holding(folder: Path, key: Path) -> Iterator[str]:
    """Runs an ssh-agent that holds the key; yields its socket."""
    (folder / "say").write_text(f"#!/bin/sh\nprintf %s {shlex.quote(WORDS)}\n")
    (folder / "say").chmod(0o700)
    with tempfile.TemporaryDirectory() as short:  # a socket's name has 100 characters
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", f"{short}/s"], stdout=subprocess.DEVNULL)
        try:
            wait_for(Path(short, "s").exists, 10, "the ssh-agent listens")
            told = {"SSH_AUTH_SOCK": f"{short}/s", "SSH_ASKPASS": str(folder / "say"), "SSH_ASKPASS_REQUIRE": "force"}
            subprocess.run(["ssh-add", "-q", str(key)], env={**os.environ, **told}, check=True, capture_output=True)
            yield f"{short}/s"
        finally:
            agent.terminate()
            agent.wait()


def test_a_passphrase_is_asked_for_once_and_a_lost_connection_goes_on_where_it_was(
    adopted: ServiceHost, tmp_path: Path
) -> None:
    key = locked_key(adopted, tmp_path)
    host = through(adopted, tmp_path, identity_file=str(key))
    before = let_in(host)
    with unchanged(host):
        ran = host.deploy(8)
    assert ran.code == 5
    assert f"ssh-add '{key}'" in ran.document["error"]["hint"]
    assert let_in(host) == before, "nobody was asked anything, on either side"

    told: list[str] = []
    terminal, side = pty.openpty()
    client = subprocess.Popen(
        [*host.argv("logs", "--follow", "--json", "--last", "1")],
        env=host.environment, stdin=side, stdout=subprocess.PIPE, stderr=side, start_new_session=True, text=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    host.clients.append(client)
    os.close(side)
    said, told = bytearray(), []
    threading.Thread(target=heard, args=(terminal, said), daemon=True).start()
    assert client.stdout
    threading.Thread(
        target=lambda: told.extend(json.loads(line)["message"] for line in client.stdout or ()), daemon=True
    ).start()
    wait_for(lambda: b"passphrase of" in said, 20, "the passphrase is asked for")
    os.write(terminal, WORDS.encode() + b"\n")
    wait_for(lambda: told, 20, "a line comes")
    for number in range(3):
        host.ask(f"now: log\nmark {number} a")
        wait_for(lambda n=number: f"mark {n} a?" in told, 20, "the line comes")
        host.on("ss", "-K", "sport", "=", ":22")
        host.ask(f"now: log\nmark {number} b")
        wait_for(lambda n=number: f"mark {n} b?" in told, 20, "the line that came meanwhile comes too")
    assert [line for line in told if line.startswith("mark")] == [f"mark {n} {x}?" for n in range(3) for x in "ab"]
    assert len(let_in(host)) == len(before) + 4
    assert said.count(b"passphrase of") == 1
    assert WORDS.encode() not in said


def heard(terminal: int, said: bytearray) -> None:
    with contextlib.suppress(OSError):  # the other side is gone
        while data := os.read(terminal, 4096):
            said.extend(data)


def test_the_keys_of_an_agent_and_of_ssh_config_are_used_as_openssh_does(adopted: ServiceHost, tmp_path: Path) -> None:
    key, address = locked_key(adopted, tmp_path), adopted.lab.address(adopted.name)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    adopted.on("systemd-run", "/usr/sbin/sshd", "-D", "-p", "2222")
    wait_for(lambda: ":2222 " in adopted.on("ss", "-ltnH"), 10, "the second sshd listens")
    own = adopted.on("cat", "/etc/ssh/ssh_host_ed25519_key.pub").split()
    (tmp_path / "known").write_text(f"[{address}]:2222 {own[0]} {own[1]}\n")
    (tmp_path / ".ssh").mkdir()
    plain = through(adopted, tmp_path, address="alias", user=None, port=None, identity_file=None, known_hosts=None)

    def status(sock: str, key: Path, more: str = "") -> Ran:
        (tmp_path / ".ssh/config").write_text(
            f'Host alias\n HostName {address}\n User root\n Port 2222\n IdentityFile "{key}"\n'
            f" UserKnownHostsFile {tmp_path}/known\n{more}"
        )
        environment = {**plain.environment, "HOME": str(tmp_path), "SSH_AUTH_SOCK": sock}
        return replace(plain, environment=environment).ddops("status")

    assert status("", key).code == 5
    with holding(tmp_path, key) as sock:
        named = through(adopted, tmp_path, identity_file=str(key))
        assert replace(named, environment={**named.environment, "SSH_AUTH_SOCK": sock}).ddops("status").code == 0
        plain = through(adopted, tmp_path, address="alias", user=None, port=None, identity_file=None, known_hosts=None)
        for words in ((key,), (key, " IdentitiesOnly yes\n"), (tmp_path / "other",)):
            assert status(sock, *words).code == 0, words
        ran = status(sock, tmp_path / "other", " IdentitiesOnly yes\n")
        assert ran.code == 6, "the agent's key was not to be used"
    ran = status("", tmp_path / "other", f' IdentityFile "{key}"\n')
    assert ran.code == 6
    assert f"ssh-add '{key}'" in ran.document["error"]["hint"]
