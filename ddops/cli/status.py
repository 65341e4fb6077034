"""``ddops status``."""

from __future__ import annotations

from typing import Any

from .options import HostOption, JsonOption, ServiceOption, SiteOption


def command(
    host: HostOption = None, service: ServiceOption = None, site: SiteOption = None, as_json: JsonOption = False
) -> int:
    """Show what a service is doing right now; exit 0 if it is healthy, 9 if not."""
    from ..exit_codes import ExitCode
    from . import output, target

    agent, _ = target.existing(host, site, service)
    found = agent.ask("status")
    output.document(found) if as_json else _print(found, host)
    return int(ExitCode.OK if found["healthy"] else ExitCode.UNHEALTHY)


def _print(found: dict[str, Any], host: str | None) -> None:
    import sys

    from ..durations import until
    from .output import data, paint, say

    def row(name: str, text: str) -> None:
        data(f"  {name:11} {text}")

    health = paint("healthy", "green", sys.stdout) if found["healthy"] else paint("NOT HEALTHY", "red", sys.stdout)
    current = found["under_way"]
    data(f"{found['service']} on {found['host']}: {health}")
    if found["ails"]:
        row("because", "; ".join(([f"a {current['kind']} is under way"] if current else []) + found["ails"]))
    row("live", _release(found["live"]))
    row("known-good", _release(found["known_good"]))
    engine = found.get("engine")
    if engine:
        answers = "answers right" if engine["answers"] else (engine.get("problem") or {}).get("what", "does not answer")
        if engine.get("overlay"):
            row("overlay", f"sha256 {engine['overlay'][:12]}, by the running engine's own report")
        row("engine", f"{engine['active']}, pid {engine['main_pid']}, {answers}")
        row("front", found["front"].replace("none", "none: the release owns the public port itself"))
    row("boots", str(found["boots"]))
    watched = found["supervisor"] == "active"
    row("supervisor", found["supervisor"] + ("" if watched else ": nobody watches the service; ddops doctor"))
    if current:
        row("under way", f"{current['kind']} by {current['by']} since {current['time']}, at step {current['step']}")
    if found["disk_full"]:
        row("disk", "full: what is under way is stored when there is room; df -h; df -i")
    if stop := found["paused"]:
        when = f"since {stop['since']}, {until(stop['until'])}"
        row("paused", f"by {stop['by']} {when}: {stop['reason'] or 'no reason was given'}")
    if incident := found["incident"]:
        row(
            "incident", f"{incident['rule']} in release {incident['release']}, {incident['time']}: {incident['action']}"
        )
    for last in found["last"]:
        row("last", f"{last['kind']}: {last['outcome']}, {last['ended']}")
        if last.get("reason"):
            row("", last["reason"]["what"])
    if found["ails"]:
        at = f" --host {host}" if host else ""
        on = f"{at} --service {found['service']}"
        goes_on = current and watched
        say("\nhint: " + (f"ddops watch{on} shows how it goes" if goes_on else f"ddops rollback{on}; ddops doctor{at}"))


def _release(release: dict[str, Any] | None) -> str:
    if not release:
        return "none"
    if "error" in release:
        return str(release["error"]["what"])
    budget = f"budget {release['budget']}" if "budget" in release else "adopted"
    drill = f", drill {release['drill']['name']}" if release.get("drill") else ""
    return f"release {release['release']}, {release['unit']}, {budget}{drill}"
