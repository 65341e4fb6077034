"""What a user writes for an SLO."""

from __future__ import annotations

from ..agent.figures import Slo
from ..errors import UsageError

_NAMES = {"ttft": "ttft", "itl": "tpot", "latency": "latency"}


def parse(text: str) -> Slo:
    """Returns ``ttft=500,itl=40,latency=9000``, in milliseconds, as an Slo; raises UsageError for anything else.

    ``itl`` is judged by each request's mean between tokens: a single late token makes no bad answer.
    """
    found: dict[str, float] = {}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        try:
            limit = float(value)
        except ValueError:
            limit = -1.0
        if name not in _NAMES or not 0 < limit < float("inf"):
            raise UsageError(f"--slo '{word}' is no limit", "milliseconds are wanted", "--slo ttft=500,itl=40")
        found[_NAMES[name]] = limit / 1000
    return Slo(**found)
