"""``ddops evidence``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import completing
from .options import BudgetOption, GraphsOption, HostOption, JsonOption, OfflineOption, ServiceOption, SiteOption

if TYPE_CHECKING:
    from ..ledger import Book


def command(
    profile: Annotated[
        str | None,
        typer.Argument(
            metavar="PROFILE",
            help="Only this profile: a name, or a .yaml file of your own.",
            autocompletion=completing.profiles,
        ),
    ] = None,
    host: HostOption = None,
    budget: BudgetOption = None,
    graphs: GraphsOption = None,
    every: Annotated[
        bool, typer.Option("--all", help="Each verdict, not the newest of its kind; drills and refusals, too.")
    ] = False,
    offline: OfflineOption = False,
    service: ServiceOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show what was tried on a host, how it ended, and whether that still holds for the stack of today."""
    from .. import tried
    from . import booked, output, target

    own, about = target.known(host, site, profile)
    wanted = tried.Filter(own.name if own and profile else None, budget, graphs)
    book = booked.read(host, site, service, about, offline_only=offline)
    rows = tried.rows(book, own, wanted, every=every)
    if as_json:
        output.document({**book.as_json(), "stack": book.stack, "evidence": rows})
    else:
        _show(book, rows)
    return booked.end(book)


def _show(book: Book, rows: list[dict[str, Any]]) -> None:
    from .output import data, row, say

    data(f"{book.service} on {book.host}, {'then' if book.from_copy else 'now'}: {_stack(book.stack)}")
    if not rows:
        say("nothing was tried of that")
        return
    head = (
        f"{'budget':>6} {'graphs':6} {'algorithm':10} {'verdict':20} {'accept':>6} {'tok/s':>6} {'rel':>3} when (UTC)"
    )
    several = _several(rows)
    profile = None
    for each in rows:
        if each["profile"] != profile:
            profile = each["profile"]
            data(f"\nprofile {profile or 'not known'}")
            row(head)
        _row(each, shows_running=_line(each) in several)


def _line(each: dict[str, Any]) -> tuple[Any, ...]:
    return each["profile"], each["budget"], each["graphs"], each["algorithm"]


def _several(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """Returns the lines of which more than one max running was tried: their rows would look alike."""
    tried: dict[tuple[Any, ...], set[Any]] = {}
    for each in rows:
        tried.setdefault(_line(each), set()).add(each["max_running"])
    return {line for line, running in tried.items() if len(running) > 1}


def _row(each: dict[str, Any], *, shows_running: bool) -> None:
    from .output import paint, row

    budget, algorithm = each["budget"] or "-", each["algorithm"] or "-"
    graphs = {True: "on", False: "off", None: "?"}[each["graphs"]]
    verdict = each["outcome"] if each["subject"] == "deploy" else f"{each['subject']}: {each['outcome']}"
    more = f" x {each['times']}" if each["times"] > 1 else ""
    accept = "-" if each["accept_length"] is None else f"{each['accept_length']:.2f}"
    tok_s = "-" if each["tok_s"] is None else f"{each['tok_s']:.0f}"
    when = str(each["ended"] or each["source"])[:16].replace("T", " ")
    row(
        f"{budget:>6} {graphs:6} {algorithm:10} {verdict + more:20} {accept:>6} {tok_s:>6} "
        f"{'-' if each['release'] is None else each['release']:>3} {when}"
    )
    if shows_running and each["max_running"]:
        row(f"{'':14}at max running {each['max_running']}")
    if each["drill"]:
        row(f"{'':14}with the drill {each['drill']}")
    if each["what"] not in (each["outcome"], "promoted"):
        row(f"{'':14}{each['what']}")
    if each["stale"]:
        row(f"{'':14}{paint('stale:', 'yellow', sys.stdout)} {', '.join(each['stale'])}")


def _stack(stack: dict[str, Any]) -> str:
    if not stack:
        return "what it stands on was never asked, so nothing is told as stale"
    if problem := stack.get("problem"):
        return f"not as it must be: {problem}"
    parts = [f"SGLang {stack['sglang']}", f"driver {stack['driver'] or 'none'}"]
    digests = ("overlay", "environment", "model", "drafter")
    parts += [f"{key} {stack[key][:12]}" for key in digests if stack.get(key)]
    return ", ".join(parts)
