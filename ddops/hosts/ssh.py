"""A host over SSH: Fabric's connection, with strict host keys and without its channel for every command."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
from pathlib import Path
from typing import Any

import fabric
import paramiko

from .. import quoting
from ..errors import Refused, Unreachable
from ..site import HostEntry

CONNECT_TIMEOUT_S = 10


class SshChannel:
    def __init__(self, channel: paramiko.Channel, host: str) -> None:
        self._channel, self._host = channel, host
        self._buffer = b""
        self._errors = b""

    def send(self, data: bytes) -> None:
        self._channel.settimeout(60)
        try:
            self._channel.sendall(data)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise Unreachable(f"{self._host} was lost", str(error) or self.errors() or "it took no more data") from None

    def line(self, timeout: float) -> bytes:
        self._channel.settimeout(timeout)
        while b"\n" not in self._buffer:
            try:
                data = self._channel.recv(1 << 16)
            except TimeoutError:
                raise Unreachable(f"{self._host} is silent", f"nothing came for {timeout:g} s") from None
            except (OSError, EOFError, paramiko.SSHException) as error:
                raise Unreachable(f"the connection to {self._host} broke", str(error)) from None
            if not data:
                break
            self._buffer += data
        line, end, self._buffer = self._buffer.partition(b"\n")
        return line + end

    def errors(self) -> str:
        while self._channel.recv_stderr_ready() and (data := self._channel.recv_stderr(1 << 16)):
            self._errors += data
        return self._errors.decode(errors="replace").strip()

    def close(self) -> None:
        self._channel.close()


class SshHost:
    """Connects at the first command and keeps that one connection."""

    def __init__(self, name: str, entry: HostEntry) -> None:
        self.name = name
        self._entry = entry
        self._connection = self._configure()
        self.as_root = [] if self._connection.user == "root" else ["sudo", "-n"]

    def _configure(self) -> Any:
        entry = self._entry
        arguments: dict[str, Any] = {}
        if entry.identity_file:
            arguments |= {"key_filename": str(entry.identity_file), "look_for_keys": False, "allow_agent": False}
        connection = fabric.Connection(
            entry.address,
            user=entry.user,
            port=entry.port,
            connect_timeout=CONNECT_TIMEOUT_S,
            connect_kwargs=arguments,
        )
        # Fabric accepts every key, changed ones too, unless told otherwise
        known = [entry.known_hosts] if entry.known_hosts else [Path.home() / ".ssh/known_hosts"]
        if not entry.known_hosts:
            known.append(Path("/etc/ssh/ssh_known_hosts"))
        for path in known:
            if path.exists():
                connection.client.load_host_keys(str(path))
        connection.client.set_missing_host_key_policy(_Refuse(known[0]))
        return connection

    def open(self, words: list[str]) -> SshChannel:
        try:
            if not self._connection.is_connected:
                self._connection.open()
                # without it each small message waits for the peer's delayed acknowledgement: 40 ms
                self._connection.transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = self._connection.create_session()
            channel.exec_command(quoting.shell(words))
        except paramiko.BadHostKeyException as error:
            raise Refused(
                f"the host key of {self.name} has changed",
                f"expected {_fingerprint(error.expected_key)}, got {_fingerprint(error.key)}",
                "if the host was reinstalled, replace its line in the known_hosts file",
            ) from None
        except paramiko.AuthenticationException as error:
            user = self._connection.user
            raise Unreachable(f"{self.name} does not let {user} in", str(error), "check user and key") from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise Unreachable(
                f"cannot connect to {self.name}",
                str(error) or type(error).__name__,
                f"does 'ssh {self._entry.address} true' work?",
            ) from None
        return SshChannel(channel, self.name)

    def close(self) -> None:
        self._connection.close()


class _Refuse(paramiko.MissingHostKeyPolicy):
    def __init__(self, known_hosts: Path) -> None:
        self._known_hosts = known_hosts

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        raise Refused(
            f"the host key of {hostname} is not known",
            f"it shows {_fingerprint(key)}, {self._known_hosts} has no line for it",
            f"compare it on the host, then: {_keyscan(hostname)} >> {self._known_hosts}",
        )


def _fingerprint(key: paramiko.PKey) -> str:
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).rstrip(b"=").decode()
    return f"{key.get_name()} SHA256:{digest}"


def _keyscan(hostname: str) -> str:
    """paramiko writes a host with a port of its own as known_hosts does: [name]:port."""
    if found := re.fullmatch(r"\[(.+)\]:(\d+)", hostname):
        return f"ssh-keyscan -p {found[2]} {found[1]}"
    return f"ssh-keyscan {hostname}"
