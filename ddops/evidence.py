"""What is known of a combination: the profile's evidence, and what the host itself has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import overlay
from .errors import Refused
from .profile import Evidence, Profile
from .render import Options

_SHORT = 12  # characters of a hash


@dataclass(frozen=True)
class Known:
    """One piece of evidence for the budget and graphs of a plan; ``stale`` tells in words what has changed since."""

    outcome: str
    text: str
    other: tuple[str, ...]
    source: str
    stale: tuple[str, ...] = ()

    @property
    def same_stack(self) -> bool:
        return not self.other

    def as_json(self) -> dict[str, Any]:
        return {
            **{"outcome": self.outcome, "what": self.text, "other": list(self.other), "source": self.source},
            "stale": list(self.stale),
        }


def of_profile(profile: Profile, options: Options) -> list[Known]:
    """Returns the profile's evidence for the budget and graphs of a release."""
    found = []
    for entry in profile.evidence:
        if entry.budget == options.budget and entry.graphs in (None, options.graphs):
            found.append(Known(entry.outcome, _text(entry), tuple(_other(profile, options, entry)), "profile"))
    return found


def of_host(entries: list[dict[str, Any]]) -> list[Known]:
    """Returns what the host's own ledger holds, the newest first."""
    return [
        Known(
            str(entry["outcome"]),
            _seen(entry),
            tuple(entry["other"]),
            "host",
            tuple(changes(entry["changed"])),
        )
        for entry in entries
    ]


def changes(changed: list[dict[str, Any]]) -> list[str]:
    """Returns in words what of a stack has changed since a verdict, such as ``driver 580.1 is now 590.2``."""
    return [_change(each["name"], each["was"], each["now"]) for each in changed]


def _change(name: str, was: str | None, now: str | None) -> str:
    if not was:
        return f"{name} was not recorded, is now {str(now)[:_SHORT]}"
    return f"{name} {was[:_SHORT]} is now {str(now)[:_SHORT] if now else 'not known'}"


def require(known: list[Known]) -> None:
    """Raises Refused where the profile's newest evidence on this very stack is bad."""
    if bad := proven_bad([entry for entry in known if entry.source == "profile"]):
        raise Refused("this combination is proven bad on this stack", bad.text, "--force tries it all the same")


def proven_bad(known: list[Known]) -> Known | None:
    """Returns the newest proof of the profile, or else of the host, on this very stack where it is a bad one."""
    same = [entry for entry in known if entry.same_stack and entry.outcome in ("good", "bad")]
    of_the_profile = [entry for entry in same if entry.source == "profile"][-1:]
    of_the_host_itself = [entry for entry in same if entry.source == "host"][:1]
    return next((e for e in of_the_profile + of_the_host_itself if e.outcome == "bad"), None)


def _seen(entry: dict[str, Any]) -> str:
    what = f"{entry['subject']} of release" if entry["subject"] != "deploy" else "as release"
    more = f"; {entry['times']} times, the newest" if entry["times"] > 1 else ""
    return f"{entry['algorithm']} {what} {entry['release']}: {entry['what']} ({entry['ended']}{more})"


def _other(profile: Profile, options: Options, entry: Evidence) -> list[str]:
    """Returns what of the stack is not that of the evidence, or is not known to be."""
    pairs = {
        "algorithm": entry.algorithm == options.drafting.algorithm,
        "sglang": entry.sglang == profile.sglang,
        "overlay": entry.overlay == overlay.sha256(),
    }
    return [name for name, same in pairs.items() if not same]


def _text(entry: Evidence) -> str:
    parts = [entry.what]
    if entry.accept_length is not None:
        parts.append(f"accept length {entry.accept_length:g}")
    if entry.tokens_per_second is not None:
        parts.append(f"{entry.tokens_per_second:g} tok/s")
    return f"{entry.algorithm}, {', '.join(parts)}"
