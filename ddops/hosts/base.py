"""The remote boundary: a host on which one command runs with its input and output at hand."""

from __future__ import annotations

from typing import Protocol


class Channel(Protocol):
    """A running command. Both directions are bytes; nothing is a terminal."""

    def send(self, data: bytes) -> None:
        """Writes to the command's input; raises Unreachable where the host is gone."""

    def line(self, timeout: float) -> bytes:
        """Returns the next line of its output, b'' at the end.

        Raises Unreachable where nothing comes for ``timeout`` seconds or the connection breaks.
        """

    def errors(self) -> str:
        """Returns what the command wrote on its standard error, so far as it has come."""

    def close(self) -> None:
        """Lets the command go."""


class Host(Protocol):
    """A machine that ddops can reach."""

    name: str
    user: str
    as_root: list[str]
    """Words before a command that has to run as root."""

    def connect(self) -> None:
        """Connects; raises Unreachable where the host cannot be reached."""

    def open(self, words: list[str]) -> Channel:
        """Starts a command, and connects where that was not done; raises as ``connect``."""

    def close(self) -> None:
        """Ends the connection."""
