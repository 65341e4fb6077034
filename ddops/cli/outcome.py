"""How the outcome of an operation is told, and what the command ends with."""

from __future__ import annotations

from typing import Any

from ..exit_codes import ExitCode, of_outcome
from . import output
from .output import paint, say

_COLOURS = {
    "promoted": "green",
    "adopted": "green",
    "unchanged": "green",
    "restarted": "green",
    "rolled-back": "yellow",
    "not-better": "yellow",
    "measured": "green",
}


def tell(kind: str, outcome: dict[str, Any], *, as_json: bool) -> int:
    """Prints an outcome; returns the exit code that is true of the host."""
    code = of_outcome(kind, outcome)
    host, release = outcome["host"], outcome.get("release") or {}
    word = paint(outcome["outcome"], _COLOURS.get(outcome["outcome"], "red"))
    say()
    say(f"{word}: {_sentence(kind, outcome)}")
    reason = outcome.get("reason")
    if reason:
        say(f"  reason   {reason['what']}")
        if reason.get("why"):
            say(f"           {reason['why']}")
    if down := outcome.get("rollback"):
        say(f"  rollback {down['what']}")
        say(f"           {down.get('why', '')}")
    live, known_good = (_pointed(host.get(name)) for name in ("live", "known_good"))
    say(f"  live     release {live}, known-good {known_good}, boots {host.get('boots')}")
    hint = (reason or {}).get("hint")
    if (kind, outcome["outcome"]) == ("rollback", "unchanged"):
        hint = "ddops rollback --to N goes to a release that was promoted earlier; ddops history lists them"
    if code is ExitCode.SERVICE_DOWN:
        hint = (outcome.get("rollback") or reason or {}).get("hint")
        if host.get("active", "active") != "active":
            say(f"  down     {host.get('unit')} is {host['active']} by now, whatever was seen of it before")
            hint = hint or f"systemctl status {host.get('unit')} on the host; ddops rollback"
    if hint:
        say(f"\nhint: {hint}")
    try:
        if as_json:
            output.document({**outcome, "exit_code": int(code)})
        else:
            output.data(f"{outcome['outcome']} release={release.get('release')} live={host.get('live')}")
    except output.OutputLost as lost:
        lost.exit_code = code or lost.exit_code  # the exit code is the host's truth all the same
        raise
    return int(code)


def _pointed(release: Any) -> str:
    """Returns what a pointer names; one that is damaged has its error instead of a release."""
    if isinstance(release, dict):
        return f"not known ({release['error']['what']})"
    return "none" if release is None else str(release)


def _sentence(kind: str, outcome: dict[str, Any]) -> str:
    release = outcome.get("release") or {}
    back = outcome.get("previous") or {}
    name = f"release {release.get('release')}"
    if budget := release.get("budget"):
        name += f" (budget {budget})"
    seconds = f"{outcome['seconds']:.0f} s"
    if outcome["outcome"] in ("not-better", "measured"):
        what = "is not better than known-good" if outcome["outcome"] == "not-better" else "was measured"
        return f"{name} {what}; release {back.get('release')} serves again, after {seconds}"
    if kind == "deploy" and outcome["outcome"] == "rolled-back":
        return f"{name} did not pass; release {back.get('release')} serves again, after {seconds}"
    if outcome["outcome"] == "unchanged":
        answers = " and answers right" if kind == "rollback" else ""
        again = "; --force deploys it again" if kind == "deploy" else ""
        return f"{name} serves already{answers}; nothing was restarted{again}"
    if kind == "rollback" and outcome["outcome"] in ("rolled-back", "restarted"):
        return f"{name} serves and answers right, after {seconds}"
    if kind == "rollback" and outcome["outcome"] == "promoted":
        return f"{name} was promoted before the rollback came; to go back from it: ddops rollback --to N"
    if outcome["outcome"] == "adopted":
        return f"{release.get('unit')} is {name} now, the way back of the first deploy"
    if outcome["outcome"] == "promoted":
        return f"{name} is known-good now, after {seconds}"
    if outcome["outcome"] == "refused":
        return "nothing was changed"
    return f"{name}; the service is down"
