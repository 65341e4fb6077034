"""A plan as people read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .output import paint

if TYPE_CHECKING:
    from ..deploy import Plan
    from ..difference import Difference

_ROW = 9


def show(made: Plan, say: Callable[[str], None]) -> None:
    """Says what a deploy would do, why it may, and what it changes."""
    plan = made.describe()

    def row(name: str, text: str, colour: str = "") -> None:
        padded = f"{name:{_ROW}}"
        say(f"  {paint(padded, colour) if colour else padded} {text}")

    say(f"{paint('plan', 'bold')}: {plan['service']} on {plan['host']}, release {plan['release']}")
    say(f"  {made.options.words()}")
    for passed in plan["passed_over"]:
        row("warning", f"not {passed['algorithm']}: {passed['reason']}", "yellow")
    row("live", name_of(plan["live"]))
    row("way back", name_of(plan["way_back"]) if plan["way_back"] else paint("none: this is a first release", "red"))
    if plan["drill"]:
        row("drill", f"{plan['drill']['name']}: this release breaks on purpose", "yellow")
    for at, line in enumerate(made.options.limits.lines()):
        row("" if at else "limits", line)
    for entry in made.known or []:
        where = "this stack" if entry.same_stack else f"another {', '.join(entry.other)}"
        doubtful = entry.stale or entry.outcome not in ("good", "passed")
        row("evidence", f"{entry.outcome} on {where}: {entry.text}", "yellow" if doubtful else "")
        if entry.stale:
            row("", f"stale: {', '.join(entry.stale)}")
    if not made.known:
        row("evidence", "none for this budget and graphs")
    if problem := plan["ledger_problem"]:
        row("warning", f"the ledger is of no use, the operations' files were read: {problem}", "yellow")
    if problem := plan["stack"].get("problem"):
        row("stack", f"not as it must be: {problem}", "yellow")
    elif plan["stack"].get("sglang") != made.profile.sglang:
        row("stack", f"SGLang {plan['stack'].get('sglang')}, the profile is for {made.profile.sglang}", "yellow")
    else:
        row("stack", f"SGLang {made.profile.sglang}, the environment and the model are there")
    row("overlay", f"sha256 {plan['overlay'][:12]}")
    row("exposure", _exposure(plan["exposure"]))
    if made.differences is not None:
        against = "all: nothing is live" if plan["live"] is None else "none against the live release"
        _changes(made.differences, against, say)
    say(f"  no service: {made.no_service()}; then a soak of {plan['soak_s']:g} s with users on it")


def _exposure(told: str | None) -> str:
    if told is None:
        return "not known: systemd tells it from 250 on"
    return f"{told} (systemd-analyze security: 0 sandboxed, 10 not at all)"


def _changes(differences: list[Difference], none: str, say: Callable[[str], None]) -> None:
    say("  changes   " + (none if not differences else "against the live release:"))
    for part in differences:
        say(f"    {paint(part.part, 'bold')}")
        for line in part.lines:
            colour = {"+": "green", "-": "red"}.get(line[:1], "dim")
            say(f"      {paint(line, colour)}")


def name_of(release: dict[str, Any] | None) -> str:
    """Returns a release in a few words."""
    if not release:
        return "none"
    budget = f", budget {release['budget']}" if "budget" in release else ", adopted"
    return f"release {release['release']} ({release['unit']}{budget})"
