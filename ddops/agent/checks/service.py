"""One service: its units, its ports, its way back."""

from __future__ import annotations

from .. import brakes, preflight, processes, releases, restore, systemd
from ..layout import Layout
from ..releases import Release
from . import Finding, absent, bad, guarded, ok, warn


def check(layout: Layout) -> list[Finding]:
    """Returns the findings about a service that this host keeps."""
    known_good = releases.pointed_if_whole(layout, layout.known_good)
    live = releases.pointed_if_whole(layout, layout.live)
    return [
        *guarded(f"{layout.name}: units", lambda: _units(layout, known_good, live)),
        *guarded(f"{layout.name}: supervisor", lambda: _supervisor(layout)),
        *guarded(f"{layout.name}: port", lambda: [_port(layout, known_good, live), _next_port(layout, known_good)]),
        *guarded(f"{layout.name}: limits", lambda: _limits(layout, live)),
        *guarded(f"{layout.name}: way back", lambda: _way_back(layout)),
    ]


def _units(layout: Layout, known_good: Release | None, live: Release | None) -> list[Finding]:
    releases_here = sorted({release.unit for release in (known_good, live) if release})
    # the alias is another name of the unit that boots, with the same drop-ins
    names = [layout.supervisor, *([] if systemd.boots(layout) in releases_here else [layout.alias])]
    fronted = [r for r in (known_good, live) if r and r.front]
    names += [layout.front_socket, layout.front_service] if fronted else []
    names += releases_here
    found: list[Finding] = []
    kept = {release.unit: release for release in (known_good, live) if release}
    for name, unit in zip(names, systemd.shown(*names)):
        if unit.load == "masked":
            why = "somebody does not want it to run; a deploy is refused"
            found.append(bad(f"{layout.name}: unit", f"{name} is masked", why, f"systemctl unmask {name}"))
        release = kept.get(name)
        strange = restore.strange_drop_ins(release, unit) if release else _of_others(unit, set(kept))
        if strange:
            why = "systemd would start something else than what was promoted"
            follow = f"systemctl cat {name}; rm it, systemctl daemon-reload"
            found.append(bad(f"{layout.name}: unit", f"{name} has the drop-in {strange[0]}", why, follow))
        if unit.needs_reload:
            why = "systemd runs it by an older text than the one on disk"
            found.append(warn(f"{layout.name}: unit", f"{name} changed on disk", why, "systemctl daemon-reload"))
    return found or [ok(f"{layout.name}: units", f"{len(names)} units, none masked, no drop-in of another")]


def _of_others(unit: systemd.Unit, releases_here: set[str]) -> list[str]:
    """Returns the drop-ins of a unit of ddops' own that are for it alone: one for all services is no surprise."""
    folders = {f"{name}.d" for name in (unit.name, *releases_here)}
    local = [path for path in unit.drop_ins if path.startswith(("/etc/", "/run/"))]
    return [path for path in local if path.rsplit("/", 2)[1] in folders]


def _supervisor(layout: Layout) -> list[Finding]:
    name, state = f"{layout.name}: supervisor", systemd.show(layout.supervisor).active
    if state != "active":
        why = "nobody watches the service; a rollback would run in a process of its own"
        return [bad(name, state, why, f"systemctl restart {layout.supervisor}; journalctl -u {layout.supervisor}")]
    if stop := brakes.paused(layout):
        return [warn(name, f"paused by {stop['by']} since {stop['since']}", "nothing acts on a fault", "ddops resume")]
    return [ok(name, state)]


def _port(layout: Layout, known_good: Release | None, live: Release | None) -> Finding:
    name = f"{layout.name}: port"
    release = live or known_good
    if release is None:
        return absent(name, "no release yet")
    port = int(release.front["port"]) if release.front else release.port
    if not processes.listener(port):
        return bad(name, f"nobody listens on {port}", "users are not served", "ddops status; ddops rollback")
    if preflight.taken(port, *systemd.shown(layout.front_service, release.unit)):
        why = "users reach something else than the service"
        return bad(
            name, f"{port} is held by {processes.owners(port)}", why, f"end that process; ss -ltnp sport = {port}"
        )
    return ok(name, f"{port} is the service's own")


def _next_port(layout: Layout, known_good: Release | None) -> Finding:
    name = f"{layout.name}: next port"
    if known_good is None or known_good.adopted:
        return absent(name, "the first release's port is the profile's to say")
    number = releases.next_number(layout)
    # ports go round after a thousand releases, as the profile's base plus the number
    port = known_good.port - known_good.number % 1000 + number % 1000
    if processes.listener(port):
        why = f"release {number} would listen there"
        return bad(name, f"{port} is held by {processes.owners(port)}", why, "end that process")
    return ok(name, f"{port} is free for release {number}")


def _limits(layout: Layout, live: Release | None) -> list[Finding]:
    if live is None:
        return []
    text = systemd.systemctl("show", live.unit, "--property=LimitMEMLOCK,LogRateLimitIntervalUSec,LogRateLimitBurst")
    values = dict(line.partition("=")[::2] for line in text.splitlines())
    memlock, found = values.get("LimitMEMLOCK", ""), []
    if memlock == "infinity":
        found.append(ok(f"{layout.name}: memlock", f"{live.unit}: no limit"))
    else:
        why = "pinned memory of the engine counts against it"
        found.append(warn(f"{layout.name}: memlock", f"{live.unit}: {memlock} bytes", why, "LimitMEMLOCK=infinity"))
    if live.adopted and not _unlimited(values):
        why = "journald may drop lines of a burst, and a fault with them"
        follow = "LogRateLimitIntervalSec=1s and LogRateLimitBurst=100000000 in the unit; releases of ddops have it"
        found.append(warn(f"{layout.name}: log rate", f"{live.unit} has journald's own limit", why, follow))
    return found


def _unlimited(values: dict[str, str]) -> bool:
    return int(values.get("LogRateLimitBurst") or 0) >= 100_000


def _way_back(layout: Layout) -> list[Finding]:
    name = f"{layout.name}: way back"
    known_good = releases.pointed(layout, layout.known_good)
    if known_good is None:
        return [bad(name, "none", "nothing was adopted and nothing was promoted yet", "ddops adopt UNIT")]
    unit = systemd.show(known_good.unit)
    if unit.load == "not-found":
        why = "its file was removed: where it runs it runs on, but no reboot starts it"
        follow = "ddops deploy PROFILE --force, in a quiet hour: it makes the release anew"
        return [bad(name, f"{known_good.unit} is not there", why, follow)]
    proof = restore.prove(known_good, unit)
    preflight.untouched(known_good, unit)
    preflight.same_stack(known_good)
    preflight.serves(known_good)
    boots = systemd.boots(layout)
    if boots != known_good.unit:
        return [bad(name, f"{boots} boots, not {known_good.unit}", "a reboot would start another", "ddops rollback")]
    if not layout.rollback_script.exists():
        why = "without it nobody can go back on the host itself"
        return [bad(name, f"{layout.rollback_script} is missing", why, "ddops rollback, it is written anew")]
    return [ok(name, f"release {known_good.number}, {proof['files']} files as promoted; it boots and answers right")]
