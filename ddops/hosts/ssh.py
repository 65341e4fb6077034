"""A host over SSH: Fabric's connection, with strict host keys and without its channel for every command."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fabric
import paramiko
from paramiko.ssh_exception import NoValidConnectionsError

from .. import quoting
from ..errors import Unreachable, UsageError
from ..site import HostEntry
from . import host_keys, transport
from .keys import Keys
from .lines import Lines
from .transport import DEAD_AFTER_S

CONNECT_TIMEOUT_S = 10
logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # what goes wrong is raised, too; it would show a traceback


class SshChannel:
    def __init__(self, channel: paramiko.Channel, host: str) -> None:
        self._channel, self._host = channel, host
        self._lines = Lines(self._read)
        self._errors = b""

    def send(self, data: bytes) -> None:
        self._channel.settimeout(60)
        try:
            self._channel.sendall(data)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise Unreachable(f"{self._host} was lost", str(error) or self.errors() or "it took no more data") from None

    def line(self, timeout: float) -> bytes:
        return self._lines.next(timeout)

    def _read(self, timeout: float) -> bytes:
        self._channel.settimeout(timeout)
        try:
            data = self._channel.recv(1 << 16)
        except TimeoutError:
            raise Unreachable(f"{self._host} is silent", f"nothing came for {timeout:g} s") from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise Unreachable(f"the connection to {self._host} broke", str(error)) from None
        # paramiko ends a stream alike where the command ends and where the connection does
        if not data and self._channel.status_event.wait(DEAD_AFTER_S) and self._channel.exit_status == -1:
            raise Unreachable(f"the connection to {self._host} broke", self.errors() or "in the middle of an answer")
        return data

    def errors(self) -> str:
        while self._channel.recv_stderr_ready() and (data := self._channel.recv_stderr(1 << 16)):
            self._errors += data
        return self._errors.decode(errors="replace").strip()

    def close(self) -> None:
        self._channel.close()


def _why(error: Exception) -> str:
    """Returns why there is no connection; of several addresses that were tried, why there is none to each."""
    if isinstance(error, NoValidConnectionsError):
        return "; ".join(f"{at[0]} port {at[1]}: {_why(one)}" for at, one in error.errors.items())
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


class SshHost:
    """Connects at the first command and keeps that one connection."""

    def __init__(self, name: str, entry: HostEntry, keys: Keys) -> None:
        """Chooses the keys, which may ask for a passphrase; raises Refused where one is missing."""
        self.name = name
        self._entry = entry
        self._keys = keys
        self._locked: list[Path] = []
        try:
            self._connection = self._hop(entry.address, entry.user, entry.port, jump=entry.jump, last=True)
        # a port that is none; hosts that jump through each other; a file that OpenSSH would not take either
        except (ValueError, RecursionError, paramiko.ConfigParseError) as error:
            raise UsageError(
                f"no way to {name} can be made of '{entry.address}'", str(error), "correct the site file or ssh_config"
            ) from None
        self.user = str(self._connection.user)
        self.as_root = [] if self.user == "root" else ["sudo", "-n"]

    def _hop(
        self,
        address: str,
        user: str | None = None,
        port: int | None = None,
        jump: str | None = None,
        through: Any = None,
        last: bool = False,
    ) -> Any:
        """Returns a connection that is not open yet, ``through`` another one or as ``jump`` and ssh_config say."""
        entry = self._entry
        arguments: dict[str, Any] = {
            "banner_timeout": CONNECT_TIMEOUT_S,
            "auth_timeout": CONNECT_TIMEOUT_S,
            "channel_timeout": CONNECT_TIMEOUT_S,
            "transport_factory": partial(transport.make, ahead=last and entry.identity_file is not None),
        }
        if entry.identity_file:
            path = entry.identity_file.expanduser()
            if not path.is_file():
                raise UsageError(f"{self.name}: identity_file is not there", str(path), "correct it in the site file")
        connection = fabric.Connection(
            address,
            user=user,
            port=port,
            gateway=False,
            connect_timeout=CONNECT_TIMEOUT_S,
            connect_kwargs=arguments,
        )
        if not 0 < connection.port < 65536:
            raise ValueError(f"{connection.port} is no port")
        connection.gateway = through or self._way_in(connection, jump)
        host_keys.check_strictly(connection, entry.known_hosts)
        self._locked += self._keys.choose(connection, entry.identity_file and entry.identity_file.expanduser())
        return connection

    def _way_in(self, connection: Any, jump: str | None) -> Any:
        """Returns the last hop before a host, or a ProxyCommand, or None.

        Not Fabric's own: that one accepts any key of a hop, and takes several hops in the wrong order.
        """
        config = connection.ssh_config
        hops = [hop.strip() for hop in (jump or config.get("proxyjump", "none")).split(",")]
        if hops == ["none"]:
            return None if jump else config.get("proxycommand")
        found = None
        for hop in hops:
            if connection.derive_shorthand(hop)["host"] in (connection.original_host, connection.host):
                return None  # 'Host *' means the hop itself, too
            found = self._hop(hop, through=found)
        return found

    def connect(self) -> None:
        with self._told():
            if not self._connection.is_connected:
                self._connection.open()

    def open(self, words: list[str]) -> SshChannel:
        self.connect()
        with self._told():
            channel = self._connection.transport.session()
            transport.start(channel, quoting.shell(words))
        return SshChannel(channel, self.name)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turns what Fabric, paramiko and the system say into errors that a user can act on."""
        try:
            yield
        except paramiko.BadHostKeyException as error:
            raise host_keys.changed(self._stuck(), self._entry.known_hosts, error) from None
        except paramiko.AuthenticationException as error:
            hop = self._stuck()
            raise Unreachable(
                f"{self._called(hop)} does not let {hop.user} in",
                str(error),
                f"try by hand: {self._by_hand()}{self._left_out()}",
            ) from None
        except (UnicodeError, OverflowError) as error:
            raise UsageError(
                f"{self._connection.host}:{self._connection.port} is no address", str(error), "correct the address"
            ) from None
        except socket.gaierror as error:
            hop = self._stuck()
            key = "address" if hop is self._connection else "jump"
            raise Unreachable(
                f"cannot connect to {self._called(hop)}",
                f"nobody knows the name {hop.host}: {error.strerror}",
                "correct the address"
                if "@" in self.name  # no site file names it
                else f"correct '{key}' of {self.name} in the site file; or HostName in ssh_config",
            ) from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise Unreachable(
                f"cannot connect to {self._called(self._stuck())}", _why(error), f"try by hand: {self._by_hand()}"
            ) from None

    def close(self) -> None:
        for hop in reversed(self._hops()):
            hop.client.close()

    def _hops(self) -> list[Any]:
        """Returns the connections on the way, this machine's neighbour first."""
        hops = [self._connection]
        while isinstance(hops[0].gateway, fabric.Connection):
            hops.insert(0, hops[0].gateway)
        return hops

    def _stuck(self) -> Any:
        """Returns the first hop that has not let us in."""
        transports = ((hop, hop.client.get_transport()) for hop in self._hops())
        return next((h for h, t in transports if t is None or not t.is_authenticated()), self._connection)

    def _called(self, hop: Any) -> str:
        return self.name if hop is self._connection else f"{hop.original_host}, on the way to {self.name}"

    def _left_out(self) -> str:
        """Returns which key may be the right one and was not tried, as a further hint."""
        if not self._locked:
            return ""
        return (
            f"; {self._locked[0]} was not tried, it needs a passphrase: ssh-add {quoting.shell([str(self._locked[0])])}"
        )

    def _by_hand(self) -> str:
        """Returns the command that goes the same way with OpenSSH."""
        entry, words = self._entry, ["ssh"]
        if entry.identity_file:
            words += ["-i", str(entry.identity_file)]
        if entry.known_hosts:
            words += ["-o", f"UserKnownHostsFile={entry.known_hosts}"]
        if entry.jump:
            words += ["-J", entry.jump]
        if self._connection.port != 22:
            words += ["-p", str(self._connection.port)]
        return quoting.shell([*words, f"{self.user}@{self._connection.original_host}", "true"])
