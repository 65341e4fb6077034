"""A service's journal: every release's engine under one identifier, and the supervisor's own lines."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from typing import Any

from . import releases, systemd
from .journal import Journal
from .layout import Layout


def logs(of: Layout, release: int | None, last: int, *, follow: bool) -> Iterator[dict[str, Any]]:
    """Yields the last entries, the oldest first, then new ones as they come."""
    numbers = [release] if release is not None else releases.numbers(of)
    units = [releases.load(of, n).unit for n in numbers]
    matches = [f"_SYSTEMD_UNIT={unit}" for unit in units]
    if release is None:
        matches.append(f"_SYSTEMD_UNIT={of.supervisor}")
        if live := systemd.boots(of):
            matches.append(f"_SYSTEMD_UNIT={live}")
    with Journal(matches, last=last) as journal:
        told = time.monotonic()
        while True:
            for entry in journal.entries():
                yield {"event": "entry", **vars(entry)}
            if not follow:
                return
            select.select([journal.fd], [], [], 0.5)
            if time.monotonic() - told > 1:
                told = time.monotonic()
                yield {"event": "alive"}
