"""Hosts that were examined, as people read them."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ..doctor import Examined, exit_code
from . import output
from .output import data, paint

_COLOURS = {"ok": "green", "warn": "yellow", "bad": "red", "not here": "dim"}


def show(found: Iterable[Examined], *, as_json: bool) -> int:
    """Prints each host as soon as it and those before it are known; returns the exit code."""
    seen = []
    for each in found:
        seen.append(each)
        if not as_json:
            _print(each)
    if as_json:
        output.document({"hosts": [each.as_json() for each in seen]})
    return int(exit_code(seen))


def _print(each: Examined) -> None:
    profile = f", profile {each.profile}" if each.profile else ""
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
