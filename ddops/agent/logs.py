"""A service's journal: every release's engine under one identifier, and the supervisor's own lines."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterator
from typing import Any

from . import releases
from .errors import Refused
from .journal import Journal
from .layout import Layout


def logs(of: Layout, release: int | None, last: int, *, follow: bool, after: str = "") -> Iterator[dict[str, Any]]:
    """Yields the last entries, the oldest first, then new ones as they come.

    With ``after``, a cursor, those behind that entry instead; where it is there no more, a ``gap`` comes first.
    """
    units = [releases.load(of, release).unit] if release is not None else _units(of)
    matches = [f"_SYSTEMD_UNIT={unit}" for unit in units]
    if release is None:
        matches.append(f"_SYSTEMD_UNIT={of.supervisor}")
    with Journal(matches, last=last, after=after) as journal:
        told = time.monotonic()
        if journal.gap:
            yield {"event": "gap"}
        while True:
            for entry in journal.entries():
                yield {"event": "entry", **entry._asdict()}
            if not follow:
                return
            select.select([journal.fd], [], [], 0.5)
            if time.monotonic() - told > 1:
                told = time.monotonic()
                yield {"event": "alive"}


def _units(of: Layout) -> list[str]:
    found = []
    for number in releases.numbers(of):
        with contextlib.suppress(Refused):  # a damaged release must not hide the others' lines
            found.append(releases.load(of, number).unit)
    return found
