"""paramiko's transport, without the waits that SSH does not ask for: each costs a round trip.

What a client sends is handled in its order, so the request to be let in need not wait for the service's word
(RFC 4253, 10), and what follows it belongs to the session as soon as it is let in (RFC 4252, 5.1).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import paramiko
from paramiko.auth_handler import AuthOnlyHandler
from paramiko.common import cMSG_CHANNEL_REQUEST, cMSG_SERVICE_REQUEST, cMSG_USERAUTH_REQUEST

from .beginning import Beginning

DEAD_AFTER_S = 5


class Transport(paramiko.ServiceRequestingTransport):  # type: ignore[name-defined,misc] # its types lack it
    """Lets itself in without waiting in between; with ``ahead`` a session is asked for in the same breath.

    A server that refuses a key takes that session for an error, so only where there is but one key to try.
    """

    def __init__(self, sock: Any, *, ahead: bool = False, **more: Any) -> None:
        super().__init__(sock, **more)
        self._ahead = ahead
        self._coming: Beginning[paramiko.Channel] | None = None
        self.auth_handler: AuthOnlyHandler | None

    def ensure_session(self) -> None:
        if not self.active or not self.initial_kex_done:
            raise paramiko.SSHException("No existing session")
        if self.auth_handler is None:
            message = paramiko.Message()
            message.add_byte(cMSG_SERVICE_REQUEST)
            message.add_string("ssh-userauth")
            self._send_message(message)
            self.auth_handler = self.get_auth_handler()

    def get_auth_handler(self) -> AuthOnlyHandler:
        return _Auth(self)

    def asked_to_be_let_in(self) -> None:
        """Asks for the first session, if it is to be asked for ahead."""
        if self._ahead and self._coming is None:
            self._coming = Beginning(self.open_session)

    def session(self) -> paramiko.Channel:
        """Returns the session that was asked for ahead, else another one; raises SSHException."""
        coming, self._coming = self._coming, None
        return coming.result() if coming else self.open_session()


class _Auth(AuthOnlyHandler):
    def send_auth_request(
        self, username: str, method: str, finish_message: Callable[[paramiko.Message], None] | None = None
    ) -> Any:
        """As paramiko's own, which makes the event after it has sent: a fast answer is lost."""
        self.auth_method, self.username = method, username
        message = paramiko.Message()
        message.add_byte(cMSG_USERAUTH_REQUEST)
        for text in (username, "ssh-connection", method):
            message.add_string(text)
        if finish_message:
            finish_message(message)
        self.auth_event = threading.Event()
        transport: Any = self.transport
        with transport.lock:
            transport._send_message(message)
        transport.asked_to_be_let_in()
        return self.wait_for_response(self.auth_event)


def make(sock: Any, *, ahead: bool = False, **more: Any) -> Transport:
    """Returns a transport on a socket of our own kind; a channel through another hop has nothing to set."""
    if isinstance(sock, socket.socket):
        # without it each small message waits for the peer's delayed acknowledgement: 40 ms
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            # a write to a peer that is gone would wait for a quarter of an hour
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_S * 1000)
    return Transport(sock, ahead=ahead, **more)


def start(channel: paramiko.Channel, command: str) -> None:
    """Has the host run a command in the session, without waiting for its word: a refusal closes the channel."""
    message = paramiko.Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("exec")
    message.add_boolean(True)
    message.add_string(command)
    transport: Any = channel.transport
    transport._send_user_message(message)
