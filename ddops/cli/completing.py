"""What the shell is offered for a word that is being typed; nothing, rather than an error, where it cannot be known."""

from __future__ import annotations

from pathlib import Path

import typer

from ..errors import DdopsError


def profiles(incomplete: str) -> list[str]:
    """Returns the profiles that ddops carries; for a path of one's own the shell offers files."""
    from .. import profile

    return _of(profile.names(), incomplete)


def hosts(context: typer.Context, incomplete: str) -> list[str]:
    """Returns the hosts of the site file."""
    from .. import site

    named = context.params.get("site")
    try:
        return _of(sorted(site.load(Path(named) if named else None).hosts), incomplete)
    except DdopsError:
        return []


def suites(incomplete: str) -> list[str]:
    """Returns the suites of ``ddops eval``."""
    from ..evaluate import SUITES

    return _of(list(SUITES), incomplete)


def drills(incomplete: str) -> list[str]:
    """Returns the drills of a deploy."""
    from ..deploy import DRILLS

    return _of(list(DRILLS), incomplete)


def rules(incomplete: str) -> list[str]:
    """Returns the rules of the table of faults."""
    from .. import faults

    return _of([str(rule["rule"]) for rule in faults.listed()], incomplete)


def topics(incomplete: str) -> list[str]:
    """Returns what ``ddops help`` explains."""
    from .. import manual

    return _of(list(manual.topics()), incomplete)


def _of(words: list[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
