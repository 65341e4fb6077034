"""Cutting a stream of bytes into lines."""

from __future__ import annotations

from collections.abc import Callable


class Lines:
    """Lines of what ``read`` returns: some bytes within so many seconds, b'' at the end of the stream."""

    def __init__(self, read: Callable[[float], bytes]) -> None:
        self._read = read
        self._buffer = b""

    def next(self, timeout: float) -> bytes:
        """Returns the next line, b'' at the end; what ``read`` raises passes through."""
        while b"\n" not in self._buffer:
            data = self._read(timeout)
            if not data:
                break
            self._buffer += data
        line, end, self._buffer = self._buffer.partition(b"\n")
        return line + end
