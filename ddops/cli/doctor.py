"""``ddops doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .options import HostOption, JsonOption, SiteOption

if TYPE_CHECKING:
    from ..doctor import Examined

NAME = "doctor"
_COLOURS = {"ok": "green", "warn": "yellow", "bad": "red", "not here": "dim"}


def command(host: HostOption = None, site: SiteOption = None, as_json: JsonOption = False) -> int:
    """Look at all that a deploy stands on, on each host or one; change nothing; exit 9 if anything is bad."""
    from .. import doctor as operation
    from . import output

    found = []
    for each in operation.examine(site, host, lambda name: output.say(f"asking {name}")):
        found.append(each)
        if not as_json:
            _print(each)
    if as_json:
        output.document({"hosts": [each.as_json() for each in found]})
    return int(operation.exit_code(found))


def _print(each: Examined) -> None:
    import sys

    from .output import data, paint

    profile = f", profile {each.profile}" if each.profile else ", no profile to compare with"
    if each.unreachable:
        word = paint("not reached", "red", sys.stdout)
    else:
        word = paint("well", "green", sys.stdout) if each.good else paint("NOT WELL", "red", sys.stdout)
    data(f"{each.host}{profile}: {word}")
    width = max(len(check.name) for check in each.checks)
    for check in each.checks:
        state = paint(f"{check.state:8}", _COLOURS[check.state], sys.stdout)
        data(f"  {state} {check.name:{width}}  {check.found}")
        if check.why:
            data(f"  {'':8} {'':{width}}  why: {check.why}")
        if check.next:
            data(f"  {'':8} {'':{width}}  next: {check.next}")
