"""What the ready gate requires of an engine that serves DDTREE."""

from __future__ import annotations

from typing import Any

import pytest

from ddops.agent.errors import GateFailed
from ddops.agent.gates.ready import audited

EFFECTIVE = {"speculative_algorithm": "DDTREE", "speculative_num_draft_tokens": 17}


def report(rank: int = 0, **changes: Any) -> dict[str, Any]:
    """A scheduler's second report, as the overlay says it after its audit."""
    batches = {"1": {"effect": 4.1, "leak": 0.0, "root": 0.001, "replay": 0.0}}
    audit = {"budget": 16, "width": 17, "graphs": True, "batches": batches, **changes}
    return {"process": "scheduler", "tp_rank": rank, "ok": True, "ddtree": audit}


def first_report(rank: int = 0) -> dict[str, Any]:
    return {"process": "scheduler", "tp_rank": rank, "ok": True, "settings": {"ddtree": {"budget": 16}}}


def test_an_audit_of_every_rank_passes() -> None:
    audited([first_report(0), first_report(1), report(0), report(1)], 2, EFFECTIVE, True)


def test_other_algorithms_have_none() -> None:
    audited([first_report()], 1, {**EFFECTIVE, "speculative_algorithm": "DFLASH"}, True)


@pytest.mark.parametrize(
    ("reports", "ranks", "named"),
    [
        ([first_report()], 1, "not audited in every scheduler rank"),
        ([report(0), report(0)], 2, "not audited in every scheduler rank"),
        ([report(batches={})], 1, "examined nothing"),
        ([report(width=9)], 1, "width 9, 17 was asked for"),
        ([report(graphs=False)], 1, "graphs False, True was asked for"),
        ([report(0), report(1, width=13)], 2, "width 13"),
    ],
)
def test_a_missing_or_different_audit_fails(reports: list[dict[str, Any]], ranks: int, named: str) -> None:
    with pytest.raises(GateFailed, match=named):
        audited(reports, ranks, EFFECTIVE, True)
