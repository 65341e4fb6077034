"""Which keys to log in with: files, and an ssh-agent's; a passphrase is asked for before anybody connects."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paramiko

from .. import quoting
from ..errors import Refused

_MAGIC = b"openssh-key-v1\0"
_DEFAULT = ("id_rsa", "id_ecdsa", "id_ed25519")


class Keys:
    """The keys of one command. What ``ask`` returns for a file opens it; it is asked once for each, None: by nobody."""

    def __init__(self, ask: Callable[[Path], str | None] = lambda _: None) -> None:
        self._ask = ask
        self._opened: dict[Path, paramiko.PKey] = {}

    def choose(self, connection: Any, identity_file: Path | None) -> list[Path]:
        """Tells a Fabric connection which keys to try, as OpenSSH would: the site's own file, or ssh_config's.

        Returns the files that are left out, because they need a passphrase and another key may do. Raises Refused
        where nothing is left without a passphrase and nobody can be asked for it.
        """
        config, kwargs = connection.ssh_config, connection.connect_kwargs
        only = identity_file is not None or config.get("identitiesonly") == "yes"
        named = (
            [identity_file] if identity_file else [Path(name).expanduser() for name in config.get("identityfile", [])]
        )
        files = [path for path in named or [Path.home() / ".ssh" / name for name in _DEFAULT] if path.is_file()]
        locked = [path for path in files if _locked(path)]
        if only:
            kwargs |= {"allow_agent": False, "look_for_keys": False}
        if named:
            kwargs["key_filename"] = [str(path) for path in files if path not in locked]
        if not locked:
            return []
        held = self._held()
        if only and (key := next((held[p] for path in locked if (p := _public(path)) in held), None)):
            kwargs["pkey"] = key
        elif len(files) == len(locked) and (only or not held):
            kwargs |= {"pkey": self._open(locked[0]), "look_for_keys": False}
            return locked[1:]
        return locked

    def _held(self) -> dict[bytes | None, paramiko.PKey]:
        """Returns what an ssh-agent holds, by the public parts."""
        with contextlib.suppress(paramiko.SSHException, OSError):
            # each host its own connection to the agent: hosts are reached at once, and paramiko locks nothing there
            return {key.asbytes(): key for key in paramiko.Agent().get_keys()}
        return {}

    def _open(self, path: Path) -> paramiko.PKey:
        if path in self._opened:
            return self._opened[path]
        add = quoting.shell(["ssh-add", str(path)])
        passphrase = self._ask(path)
        if passphrase is None:
            raise Refused(
                f"{path} needs a passphrase",
                "there is no terminal to ask for it on, and no ssh-agent holds that key; nothing was begun",
                f"{add}, where an ssh-agent runs; or the same command on a terminal",
            )
        for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
            with contextlib.suppress(paramiko.SSHException, ValueError):
                self._opened[path] = kind.from_private_key_file(str(path), passphrase)
                return self._opened[path]
        raise Refused(f"the passphrase does not open {path}", "nothing was begun", f"the same command again, or {add}")


def _locked(path: Path) -> bool:
    """Says whether a private key needs a passphrase; told by its head, since to read the key itself takes time."""
    try:
        data = path.read_bytes()
    except OSError:
        return False  # whoever tries it says what is wrong with it
    if inner := _openssh(data):
        return inner[0] != b"none"
    return b"ENCRYPTED" in data[:200]


def _public(path: Path) -> bytes | None:
    """Returns the public part of a key: that of its own file, or of the one beside it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        if inner := _openssh(path.read_bytes()):
            return inner[1]
        return base64.b64decode(Path(f"{path}.pub").read_bytes().split()[1])
    return None


def _openssh(data: bytes) -> tuple[bytes, bytes] | None:
    """Returns cipher and public part of a key in OpenSSH's own format (PROTOCOL.key), None for another one."""
    lines = data.split(b"\n")
    with contextlib.suppress(ValueError):
        inner = base64.b64decode(b"".join(line for line in lines if b"-----" not in line))
        if inner.startswith(_MAGIC):
            message = paramiko.Message(inner[len(_MAGIC) :])
            cipher, _, _, _ = message.get_binary(), message.get_binary(), message.get_binary(), message.get_int()
            return cipher, message.get_binary()
    return None
