"""Promotion: the release becomes known-good and the one that boots."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any

from . import durable, front, releases, systemd
from .errors import AgentError, Refused
from .layout import UNITS, Layout
from .releases import Release

PROMOTED = "promoted.json"  # beside a release's files: it was good once
KEPT_PROMOTED = 5
KEPT_FAILED = 5


def promote(layout: Layout, release: Release) -> dict[str, Any]:
    """Makes a running release known-good; every part can be repeated.

    The rename of the alias is the moment that counts: before it the old known-good boots, after it
    the new one does. Raises AgentError where systemd did not take the release over as it runs.
    """
    was = systemd.show(release.unit)
    make_boot(layout, release)
    releases.point(layout.known_good, release)
    releases.point(layout.live, release)
    # a drop-in for all services of the host, or for all releases of this one: the gates have passed with it
    drop_ins = {} if release.adopted else {path: systemd.sha256(path) for path in was.drop_ins}
    durable.write_json(release.directory / PROMOTED, {"release": release.number, "drop_ins": drop_ins})
    systemd.unlink_trial(release.unit)
    systemd.daemon_reload()
    now = systemd.show(release.unit)
    running = now.main_pid and now.main_pid == was.main_pid
    if not running or now.needs_reload or systemd.boots(layout) != release.unit:
        raise AgentError(
            f"systemd did not take over {release.unit} as it runs",
            f"main pid {was.main_pid} became {now.main_pid}, needs reload: {now.needs_reload}",
            f"systemctl status {release.unit}",
        )
    install_rollback_script(layout)
    forget_others(layout, release)  # last: on a disk that is full by now they could not be written again
    try:
        pruned: Any = prune(layout)
    except (OSError, AgentError) as error:
        pruned = f"failed: {error}"  # an old release that cannot be removed is no reason to leave a good one
    return {"boots": release.unit, "pruned": pruned}


def make_boot(layout: Layout, release: Release) -> None:
    """Makes a release the one that the next boot starts, with its front. Repeatable."""
    if not release.adopted:
        systemd.install(release.unit, (release.directory / release.unit).read_bytes())
        wants = UNITS / f"{release.unit}.wants"
        wants.mkdir(exist_ok=True)
        durable.link(wants / layout.front_socket, str(UNITS / layout.front_socket))
        durable.sync_directory(UNITS)
    if release.front:
        front.install(layout, release)
        front.keep_open_to(layout, release)
    systemd.make_boot(layout, release.unit)


def forget_others(layout: Layout, keep: Release) -> None:
    """Takes the units of all releases away but ``keep``'s and the one that boots, adopted ones left alone.

    Also that of a trial whose end could not be waited for, or whose promotion failed half-way.
    """
    for number in releases.numbers(layout):
        with contextlib.suppress(Refused):  # one that is damaged was never started with these files
            release = releases.load(layout, number)
            if not release.adopted and release.unit not in (keep.unit, systemd.boots(layout)):
                forget_unit(release)


def forget_unit(release: Release) -> None:
    """Takes a release's unit away; its text stays in the release."""
    systemd.unlink_trial(release.unit)
    durable.remove(UNITS / release.unit)
    shutil.rmtree(UNITS / f"{release.unit}.wants", ignore_errors=True)


def install_rollback_script(layout: Layout) -> None:
    """Writes the script that rolls back with no client."""
    script = f"""#!/bin/sh
# does what 'ddops rollback' does, with nothing but this host: {layout.rollback_script} [RELEASE]
exec /usr/bin/python3 -IS {layout.agent} rollback {layout.name} "$@"
"""
    if not layout.rollback_script.exists() or layout.rollback_script.read_text() != script:
        durable.write(layout.rollback_script, script.encode(), mode=0o755)


def prune(layout: Layout) -> list[int]:
    """Removes old releases; never known-good, live or an adopted one.

    Promoted and failed releases have quotas of their own, so that failures never push out a good one.
    """
    kept = {p["release"] for p in (durable.read_json(layout.known_good), durable.read_json(layout.live)) if p}
    promoted: list[int] = []
    failed: list[int] = []
    for number in reversed(releases.numbers(layout)):
        directory = layout.release_dir(number)
        if number in kept or releases.load(layout, number).adopted:
            continue
        (promoted if (directory / PROMOTED).exists() else failed).append(number)
    gone = promoted[KEPT_PROMOTED:] + failed[KEPT_FAILED:]
    for number in gone:
        aside = layout.releases / f".pruned-{number:04d}"
        os.replace(layout.release_dir(number), aside)
        shutil.rmtree(aside)
    return gone
