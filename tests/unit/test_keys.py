"""Whether a key needs a passphrase, and which one it is, is told without opening it."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from ddops.hosts import keys


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
