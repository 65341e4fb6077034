"""The supervisor's bell: whoever files a request or a cancellation rings it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from .layout import Layout


@contextlib.contextmanager
def listening(layout: Layout) -> Iterator[socket.socket]:
    """Holds the socket that can be rung."""
    with contextlib.suppress(FileNotFoundError):
        layout.wake.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.bind(str(layout.wake))
        layout.wake.chmod(0o600)
        yield sock


def ring(layout: Layout) -> None:
    """Wakes the supervisor; it looks by itself within seconds where nobody listens."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"!", str(layout.wake))
