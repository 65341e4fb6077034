"""The format of a service's state on the host: whoever acts on it marks it, and who is older touches nothing.

A change that an older ddops would misread raises FORMAT, and goes on reading every format before it; the tests keep a
recorded state of each. State without a mark is of format 1, and so is one whose mark is damaged: a rollback must not
fail because of it, and what it goes to is compared with its hashes anyway.
"""

from __future__ import annotations

from typing import Any

from . import VERSION, durable
from .errors import TooNew
from .layout import Layout

FORMAT = 1


def must_be_readable(layout: Layout) -> None:
    """Raises TooNew where a newer ddops has left state that this one would misread."""
    found = _mark(layout)
    if found["format"] > FORMAT:
        raise too_new(layout, f"the state of {layout.name}", found["format"], str(found.get("ddops", "")))


def too_new(layout: Layout, what: str, its_format: int, its_ddops: str) -> TooNew:
    """Returns the refusal to touch what a newer ddops has written."""
    return TooNew(
        f"{what} was written by a newer ddops{its_ddops and ', ' + its_ddops}",
        f"it has format {its_format}, this is ddops {VERSION} and reads up to {FORMAT}; nothing was touched",
        f"use ddops {its_ddops or 'of that version'} or newer; {layout.rollback_script} on the host needs none",
    )


def mark(layout: Layout) -> None:
    """Marks the state as this ddops' own, before it acts on it; raises OSError where that cannot be stored."""
    own = {"format": FORMAT, "ddops": VERSION}
    if _mark(layout) != own:
        durable.write_json(layout.format, own)


def _mark(layout: Layout) -> dict[str, Any]:
    try:
        found = durable.read_json(layout.format)
        return {**found, "format": int(found["format"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"format": 1}
