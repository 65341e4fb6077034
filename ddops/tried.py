"""What was tried, by combination: the host's verdicts and the profile's own, against the stack of today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import evidence
from .agent import evidence as on_host
from .ledger import Book
from .profile import Profile

_FIELDS = ("profile", "budget", "graphs", "algorithm", "max_running", "release", "ended", "what")


@dataclass(frozen=True)
class Filter:
    """Which combinations are meant; None: any."""

    profile: str | None = None
    budget: int | None = None
    graphs: bool | None = None

    def takes(self, profile: str | None, budget: int | None, graphs: bool | None) -> bool:
        """Says whether a combination is meant; evidence that does not tell its graphs is of both kinds."""
        return (
            self.profile in (None, profile)
            and self.budget in (None, budget)
            and (self.graphs is None or graphs in (None, self.graphs))
        )


def rows(book: Book, profile: Profile | None, wanted: Filter, *, every: bool) -> list[dict[str, Any]]:
    """Returns what was tried, by budget and graphs, the newest first in each; the profile's own evidence last.

    Of equal verdicts on the same stack the newest stands for all; with ``every`` each is there, drills and what
    proves nothing, too.
    """
    meant = [e for e in book.entries if wanted.takes(e["profile"], e["budget"], e["graphs"])]
    chosen = [(entry, 1) for entry in reversed(meant)] if every else on_host.newest(meant)
    found = [_row(book, entry, times) for entry, times in chosen]
    if profile is not None:
        found += [row for row in _field(book, profile) if wanted.takes(row["profile"], row["budget"], row["graphs"])]
    return sorted(found, key=lambda row: (row["profile"] or "", row["budget"] or 0, bool(row["graphs"])))


def _row(book: Book, entry: dict[str, Any], times: int) -> dict[str, Any]:
    changed = on_host.changed(entry, book.stack) if book.stack and entry["verdict"] else []
    return {
        **{key: entry[key] for key in _FIELDS},
        "source": "host",
        "subject": on_host.subject(entry),
        "outcome": entry["verdict"] or entry["outcome"],
        "drill": entry["drill"],
        "times": times,
        "accept_length": _figure(entry, "accept_length"),
        "tok_s": _figure(entry, "tok_s"),
        "stack": {key: entry[key] for key in on_host.STACK},
        "changed": changed,
        "stale": evidence.changes(changed),
        "verdicts": entry["verdicts"],
    }


def _figure(entry: dict[str, Any], name: str) -> float | None:
    return next((verdict[name] for verdict in entry["verdicts"] if verdict[name] is not None), None)


def _field(book: Book, profile: Profile) -> list[dict[str, Any]]:
    """Returns the profile's evidence, compared by what it tells of its stack: SGLang and the overlay."""
    found = []
    for entry in profile.evidence:
        was = {"sglang": entry.sglang, "overlay": entry.overlay}
        now = {key: book.stack.get(key) for key in was}
        changed = on_host.changed(was, now) if book.stack else []
        found.append(
            {
                **{"profile": profile.name, "budget": entry.budget, "graphs": entry.graphs},
                **{"algorithm": entry.algorithm, "max_running": None, "what": entry.what},
                **{"release": None, "ended": None},
                **{"source": "profile", "subject": "deploy", "outcome": entry.outcome, "drill": None, "times": 1},
                **{"accept_length": entry.accept_length, "tok_s": entry.tokens_per_second},
                **{"stack": was, "changed": changed, "stale": evidence.changes(changed), "verdicts": []},
            }
        )
    return found
