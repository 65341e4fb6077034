"""Host keys, checked strictly on every hop: an unknown or a changed key is refused, with the way to accept it."""

from __future__ import annotations

import base64
import hashlib
import shlex
from pathlib import Path
from typing import Any

import paramiko

from .. import quoting
from ..errors import Refused, UsageError

_SYSTEM = Path("/etc/ssh/ssh_known_hosts")


def check_strictly(connection: Any, known_hosts: Path | None) -> None:
    """Makes a Fabric connection refuse every key that is not in ``known_hosts`` or, without it, in OpenSSH's files.

    Raises UsageError for a file that cannot be read.
    """
    files = _files(connection, known_hosts)
    for path in files:
        try:
            if path.exists():
                connection.client.load_host_keys(str(path))
        except (OSError, UnicodeDecodeError, paramiko.hostkeys.InvalidHostKey) as error:
            raise UsageError(f"cannot read the host keys in {path}", str(error), "correct that file") from None
    # Fabric's own policy accepts everything
    connection.client.set_missing_host_key_policy(_Refuse(files[0]))


def changed(connection: Any, known_hosts: Path | None, error: paramiko.BadHostKeyException) -> Refused:
    """Returns the refusal of a key that is not the one that is known."""
    name = _name(connection)
    path = next((p for p in _files(connection, known_hosts) if _has(p, name)), _SYSTEM)
    forget = quoting.shell(["ssh-keygen", "-R", name, "-f", str(path)])
    return Refused(
        f"the host key of {name} has changed",
        f"it shows {_fingerprint(error.key)}, {path} has {_fingerprint(error.expected_key)}",
        f"if the host was made anew, compare the key on it, then: {forget} && {_accept(name, error.key, path)}",
    )


class _Refuse(paramiko.MissingHostKeyPolicy):
    def __init__(self, known_hosts: Path) -> None:
        self._known_hosts = known_hosts

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        raise Refused(
            f"the host key of {hostname} is not known",
            f"it shows {_fingerprint(key)}, {self._known_hosts} has no line for it",
            f"compare the key on the host, then: {_accept(hostname, key, self._known_hosts)}",
        )


def _files(connection: Any, known_hosts: Path | None) -> list[Path]:
    """Returns the files that are read, first the one that a new key belongs into."""
    if known_hosts:
        return [known_hosts.expanduser()]
    named = shlex.split(connection.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts"))
    return [*(Path(name).expanduser() for name in named if name != "none"), _SYSTEM]


def _name(connection: Any) -> str:
    """Returns a host as known_hosts has it: [name]:port where the port is not SSH's own."""
    return str(connection.host) if connection.port == 22 else f"[{connection.host}]:{connection.port}"


def _has(path: Path, name: str) -> bool:
    return path.exists() and paramiko.HostKeys(str(path)).lookup(name) is not None


def _fingerprint(key: paramiko.PKey) -> str:
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).rstrip(b"=").decode()
    return f"{key.get_name()} SHA256:{digest}"


def _accept(name: str, key: paramiko.PKey, path: Path) -> str:
    """Returns the command that accepts exactly this key: asking the host for it again could bring another."""
    line = quoting.shell(["echo", f"{name} {key.get_name()} {key.get_base64()}"])
    return f"{line} >> {quoting.shell([str(path)])}"
