"""What drafts the tree of a release: the first of the profile's list that is on board and serves the budget."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from . import overlay
from .errors import Refused, UsageError
from .profile import Drafting, Profile
from .site import Site


@dataclass(frozen=True)
class Choice:
    """The algorithm of a release, and the better ones that cannot serve it, each with the reason."""

    drafting: Drafting
    passed_over: tuple[tuple[str, str], ...]


def choose(profile: Profile, site: Site, budget: int, wanted: str | None) -> Choice:
    """Returns what drafts ``budget`` nodes.

    Raises Refused where the wanted one, or none at all, can serve it: a budget is never rendered for an engine
    that cannot have it. Raises UsageError for an algorithm that the profile does not list.
    """
    listed = {drafting.algorithm: drafting for drafting in profile.speculation}
    if wanted is not None:
        if wanted.upper() not in listed:
            near = difflib.get_close_matches(wanted.upper(), listed, n=1)
            raise UsageError(
                f"profile {profile.name} has no algorithm '{wanted}'",
                f"it lists {', '.join(listed)}",
                f"did you mean {near[0]}?" if near else "",
            )
        drafting = listed[wanted.upper()]
        if reason := _missing(drafting, site, budget):
            raise Refused(f"{drafting.algorithm} cannot serve budget {budget}", reason, _other(profile, site, budget))
        return Choice(drafting, ())
    passed_over: list[tuple[str, str]] = []
    for drafting in profile.speculation:
        reason = _missing(drafting, site, budget)
        if not reason:
            return Choice(drafting, tuple(passed_over))
        passed_over.append((drafting.algorithm, reason))
    raise Refused(
        f"nothing on board serves budget {budget}",
        "; ".join(f"{algorithm}: {reason}" for algorithm, reason in passed_over),
        "another budget",
    )


def candidates(drafting: Drafting, budget: int, wanted: int | None) -> int | None:
    """Returns the candidates a position of the drafter's block: the wanted, or the profile's, the budget at most.

    None where the algorithm has no such choice. Raises UsageError where there is nothing to choose, or more than nodes.
    """
    if wanted is None:
        return None if drafting.topk is None else min(drafting.topk, budget)
    if drafting.topk is None:
        raise UsageError(f"{drafting.algorithm} has no topk", "its tree is not made from a drafter's candidates", "")
    if not 1 <= wanted <= budget:
        why = "more candidates a position than nodes can never be used" if wanted > budget else ""
        raise UsageError(f"topk {wanted} is out of range", why, f"--topk 1 to {budget}, the budget")
    return wanted


def _missing(drafting: Drafting, site: Site, budget: int) -> str:
    """Returns why it cannot serve the budget, or nothing."""
    if drafting.brought_by == "overlay" and not site.overlay.plugin:
        return "the plug-in is switched off in the site file"
    if drafting.brought_by == "overlay" and drafting.algorithm not in overlay.algorithms():
        return "the overlay of this ddops does not bring it"
    least, most = drafting.budgets
    if not least <= budget <= most:
        return f"it serves {f'budget {least} alone' if least == most else f'budgets {least} to {most}'}"
    if drafting.drafter and not site.drafter:
        return "it needs a drafter, and the site file names none"
    return ""


def _other(profile: Profile, site: Site, budget: int) -> str:
    able = [d.algorithm for d in profile.speculation if not _missing(d, site, budget)]
    return f"--algorithm {able[0]} can" if able else "another budget"
