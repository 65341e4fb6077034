"""One writer: a kernel lock that dies with its holder, and a record of who holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import durable, steplog, systemd
from .errors import Locked
from .layout import Layout


@contextmanager
def held(layout: Layout) -> Iterator[None]:
    """Holds the service's lock; raises Locked, naming the owner, where another holds it."""
    durable.make_directory(layout.root, 0o711)
    fd = os.open(layout.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise locked_by(layout, held=True) from None
        yield
    finally:
        os.close(fd)


def locked_by(layout: Layout, *, held: bool = False) -> Locked:
    """Returns the refusal that names who has the service in hand, since when, and why.

    An operation that nobody holds, and that no supervisor will take up, was left half done.
    """
    request = steplog.under_way(layout)
    if request is None:
        return Locked(f"{layout.name} is locked", "an operation is just beginning or ending", "try again")
    if not held and systemd.show(layout.supervisor).active in ("inactive", "failed"):
        return Locked(
            f"operation {request['operation']} was left half done: the supervisor of {layout.name} does not run",
            f"{request['kind']} by {request['by']} since {request['time']}, at step {steplog.at_step(layout, request)}",
            f"ddops rollback ends it; systemctl start {layout.supervisor} on the host goes on with it",
        )
    return Locked(
        f"{layout.name} is locked by {request['by']} since {request['time']}",
        f"operation {request['operation']}: {request['kind']}",
        "ddops status; ddops rollback ends a trial" if request["kind"] == "deploy" else "ddops status",
        {
            "operation": request["operation"],
            "by": request["by"],
            "since": request["time"],
            "kind": request["kind"],
        },
    )
