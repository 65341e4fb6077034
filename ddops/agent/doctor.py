"""What a deploy would stand on, looked at part by part. Nothing here changes anything."""

from __future__ import annotations

import time
from typing import Any

from . import overlay_fit, state
from .checks import Finding, absent, bad, engine, gpus, guarded, machine, service, warn
from .errors import TooNew
from .layout import Layout, layout_of, services
from .processes import listener, owners


def check(about: dict[str, Any]) -> dict[str, Any]:
    """Returns ``findings`` (name, state, found, why, next) and ``now``, the host's clock in seconds.

    ``about`` holds python, model, drafter (or None), secrets, user, service, public_port (or None), sglang (or
    None), hardware (a profile's, or None), and pins and tree as ``overlay_fit.check`` takes them.
    """
    hardware = about["hardware"]
    layout = layout_of(about["service"])
    link, count = (hardware["link"], int(hardware["gpus"])) if hardware else ("none", 0)
    parts = [
        ("root", machine.root),
        ("systemd", machine.init),
        ("disk", lambda: machine.room(layout)),
        ("shared memory", lambda: machine.shared_memory(count)),
        ("ptrace_scope", lambda: machine.ptrace(link)),
        ("journald", machine.journald),
        ("gpus", lambda: gpus.check(hardware)),
        ("engine.python", lambda: engine.placed(about)),
        ("sglang", lambda: engine.version(about)),
        ("record", lambda: engine.record(about)),
        ("overlay fit", lambda: overlay_fit.check(about)),
        ("services", lambda: _services(layout, about["public_port"])),
    ]
    found = [finding for name, look in parts for finding in guarded(name, look)]
    return {"findings": found, "now": time.time()}


def _kept(layout: Layout) -> list[Finding]:
    try:
        state.must_be_readable(layout)
    except TooNew as error:
        return [bad(f"{layout.name}: state", error.what, error.why, error.hint)]
    return service.check(layout)


def _services(layout: Layout, public_port: int | None) -> list[Finding]:
    known = services()
    found = [finding for name in known for finding in _kept(layout_of(name))]
    if layout.name in known or public_port is None:
        return found
    name = f"{layout.name}: port"
    if listener(public_port):
        why = f"{layout.name} would serve there"
        found.append(
            warn(name, f"{public_port} is held by {owners(public_port)}", why, "ddops adopt UNIT, if it is it")
        )
    else:
        found.append(absent(name, f"{layout.name} is not on this host yet; {public_port} is free"))
    return found
