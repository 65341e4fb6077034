"""Whether a key needs a passphrase, and which one it is, is told without opening it."""

from __future__ import annotations

import base64
import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from ddops import hosts
from ddops.errors import DdopsError, Refused, Unreachable
from ddops.hosts import keys
from ddops.site import HostEntry


@pytest.mark.parametrize("passphrase", ["", "a word"])
@pytest.mark.parametrize(
    "kind",
    [("ed25519",), ("ecdsa",), ("rsa", "-b", "2048"), ("rsa", "-b", "2048", "-m", "PEM")],
    ids="-".join,
)
def test_a_key_is_told_by_its_head(kind: tuple[str, ...], passphrase: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", *kind, "-N", passphrase, "-f", str(path)], check=True)
    assert keys._locked(path) == bool(passphrase)
    assert keys._public(path) == base64.b64decode(Path(f"{path}.pub").read_bytes().split()[1])
    opened = keys.Keys(lambda _: passphrase)._open(path)
    assert opened.asbytes() == keys._public(path)


@pytest.mark.parametrize("text", ["", "no key at all", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\n"])
def test_what_is_no_key_is_left_to_whoever_tries_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(text)
    assert not keys._locked(tmp_path / "key")
    assert keys._public(tmp_path / "key") is None


def test_a_passphrase_is_asked_for_once_for_all_hosts(tmp_path: Path) -> None:
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "a word", "-f", str(path)], check=True)
    asked = []

    def ask(key: Path) -> str:
        asked.append(key)
        return "a word"

    entry, missing = (HostEntry(address="127.0.0.1", port=1, identity_file=p) for p in (path, tmp_path / "none"))
    one, gone, other = hosts.several([("a", entry), ("b", missing), ("c", entry)], ask)
    assert asked == [path]
    assert isinstance(gone, DdopsError)
    assert "identity_file is not there" in gone.what
    for host in (one, other):
        assert not isinstance(host, DdopsError)
        with pytest.raises(Unreachable):
            host.connect()
    (unasked,) = hosts.several([("a", entry)], lambda _: None)
    assert isinstance(unasked, Refused)


@pytest.mark.parametrize("verb", [("doctor",), ("site", "check"), ("overlay", "check")])
def test_every_command_that_asks_hosts_asks_for_the_passphrase_on_a_terminal(
    verb: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "a word", "-f", str(path)], check=True)
    site = tmp_path / "site.yaml"
    entry = f"{{address: 127.0.0.1, port: 1, identity_file: {path}}}"
    site.write_text(f"hosts: {{h: {entry}}}\nengine: {{python: /p}}\nmodel: /m\n")
    mine, its = pty.openpty()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DDOPS_SITE": str(site), "NO_COLOR": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "ddops", *verb, "--json"],
        env=environment, stdin=its, stdout=subprocess.PIPE, stderr=its, text=True, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as client:  # fmt: skip
        said = b""
        while b"passphrase of" not in said:
            assert select.select([mine], [], [], 60)[0], said
            said += os.read(mine, 65536)
        os.write(mine, b"a word\n")
        document = client.communicate(timeout=60)[0]
    said += os.read(mine, 65536)
    os.close(mine)
    os.close(its)
    assert said.count(b"passphrase of") == 1
    assert client.returncode == 6
    assert "Connection refused" in document
