"""What a step of an operation has shown, in a few words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def found_of(event: dict[str, Any]) -> str:
    """Returns the words for a step that was passed, "" where there is nothing to say."""
    says = _SAYS.get(event["step"])
    return says({**event, **(event.get("evidence") or {})}) if says else ""


def _drain(found: dict[str, Any]) -> str:
    return f"{found['streams_cut']} streams cut" if found.get("streams_cut") else ""


def _ready(found: dict[str, Any]) -> str:
    return f"overlay on {len(found['overlay'])} rank(s), settings as asked" if "overlay" in found else ""


def _lossless(found: dict[str, Any]) -> str:
    return f"{found['tokens']} tokens of {found['prompts']} prompts, {len(found['near_ties'])} near-ties"


def _acceptance(found: dict[str, Any]) -> str:
    lengths, known_good = found["accept_length"], found.get("known_good") or {}
    text = ", ".join(f"{value:.2f} {name}" for name, value in lengths.items())
    was = ", ".join(f"{known_good[name]:.2f}" for name in lengths if name in known_good)
    return f"{text} (was {was})" if was else text


def _throughput(found: dict[str, Any]) -> str:
    text = f"{found['tok_s']:g} tok/s"
    if "change" not in found:
        return text
    slower = ", slower, which is accepted" if found["accepted_slower"] else ""
    users = "" if found["known_good"].get("quiet", True) else ", which had users"
    return f"{text} (was {found['known_good']['tok_s']:g}{users}, {found['change']:+.0%}){slower}"


def _garbage(found: dict[str, Any]) -> str:
    length = found["accept_length"]
    return f"{len(found['judged'])} answers" + ("" if length is None else f", accept length {length:.2f}")


_SAYS: dict[str, Callable[[dict[str, Any]], str]] = {
    "drain": _drain,
    "ready": _ready,
    "smoke": lambda found: f"{found['asked']} right answers",
    "lossless": _lossless,
    "acceptance": _acceptance,
    "throughput": _throughput,
    "eval-coding": lambda found: f"{found['right']} of {found['of']} programs right",
    "eval-garbage": _garbage,
    "eval-load": lambda found: f"{found['streams']} streams, {found['aborted']} left in the middle",
    "measure": lambda found: ", ".join(f"{m['tok_s']:g} tok/s at {m['concurrency']}" for m in found["measured"]),
    "soak": lambda found: f"{found['rounds']} rounds of right answers",
}
