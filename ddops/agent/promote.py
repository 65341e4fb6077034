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
from .steplog import StepLog

PROMOTED = "promoted.json"  # beside a release's files: it was good once
KEPT_PROMOTED = 5
KEPT_FAILED = 5
_ASIDE = ".pruned-"


def promote(layout: Layout, release: Release) -> dict[str, Any]:
    """Makes a running release known-good; every part can be repeated.

    The rename of the alias is the moment that counts: before it the old known-good boots, after it
    the new one does. Raises AgentError where systemd did not take the release over as it runs.
    """
    was, alias = systemd.shown(release.unit, layout.alias)
    if alias.load == "not-found":
        systemd.forget_alias(layout)
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
    return {"boots": release.unit}


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


def prune(layout: Layout, log: StepLog) -> None:
    """Removes old releases, as a step of its own where there are any.

    One that cannot be removed is no reason to leave a good one.
    """
    with contextlib.suppress(OSError, AgentError):
        half = list(layout.releases.glob(f"{_ASIDE}*"))  # of a removal that something ended
        if (gone := _old(layout)) or half:
            with log.step("prune") as found:
                found["pruned"] = gone
                for number in gone:
                    half.append(layout.releases / f"{_ASIDE}{number:04d}")
                    os.replace(layout.release_dir(number), half[-1])
                for directory in half:
                    shutil.rmtree(directory)


def _old(layout: Layout) -> list[int]:
    """Returns the releases to remove; never known-good, live or an adopted one.

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
    return promoted[KEPT_PROMOTED:] + failed[KEPT_FAILED:]
