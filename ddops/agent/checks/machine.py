"""The host itself: systemd, journald, room, limits of the kernel."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from .. import commands, releases, sandbox, systemd
from ..errors import Refused
from ..layout import Layout
from . import Finding, absent, bad, ok, warn

TRIED = 247  # the oldest systemd that ddops was run on
_SHM_FOR_GPUS = 1 << 30  # what NCCL and the engine's processes share; a container's default is 64 MiB
_ROOM = (64 << 20, 500)  # bytes and files of a release with head-room


def root() -> list[Finding]:
    """Says as whom the agent works; it is asked as root or not at all."""
    by = os.environ.get("SUDO_USER")
    python = f"Python {platform.python_version()} ({sys.executable})"
    how = f"{by} becomes root by sudo, with no password" if by else "the login is root's own"
    return [ok("root", f"{how}; {python}")]


def init() -> list[Finding]:
    """Looks at systemd's version and for failed changes of unit files that it has not read yet."""
    systemd.must_run()
    text = systemd.systemctl("--version", timeout=10)
    found = re.search(r"systemd (\d+)", text)
    if not found:
        return [warn("systemd", text.splitlines()[0] if text else "silent", "its version is not known")]
    if int(found[1]) < TRIED:
        return [warn("systemd", f"version {found[1]}", f"ddops was run on {TRIED} and newer alone", "ddops lab demo")]
    if int(found[1]) < sandbox.OLDEST:
        why = f"no sandbox before {sandbox.OLDEST}: 'ddops eval coding', and a gate of that name, run no program"
        return [warn("systemd", f"version {found[1]}", why, "leave coding out of the profile's gates.suites")]
    return [ok("systemd", f"version {found[1]}")]


def room(layout: Layout) -> list[Finding]:
    """Looks whether a release fits, in bytes and in inodes, by the same rule as a deploy."""
    disk = os.statvfs(next(path for path in (layout.releases, *layout.releases.parents) if path.exists()))
    inodes = f", {disk.f_favail} inodes" if disk.f_files else ""
    found = f"{disk.f_bavail * disk.f_frsize >> 20} MiB{inodes} free for {layout.releases}"
    try:
        releases.must_have_room(layout, *_ROOM)
    except Refused as error:
        return [bad("disk", error.what, "a release could not be stored", error.hint)]
    return [ok("disk", found)]


def shared_memory(gpus: int, path: Path = Path("/dev/shm")) -> list[Finding]:  # noqa: S108 - looked at, not used
    """Looks at /dev/shm, through which the engine's processes and NCCL talk."""
    disk = os.statvfs(path)
    free = disk.f_bavail * disk.f_frsize
    found = f"{free >> 20} MiB free in {path}"
    if gpus > 1 and free < _SHM_FOR_GPUS:
        return [
            warn(
                "shared memory", found, f"NCCL shares memory there for {gpus} GPUs", f"mount -o remount,size=8G {path}"
            )
        ]
    return [ok("shared memory", found)]


def ptrace(link: str, path: Path = Path("/proc/sys/kernel/yama/ptrace_scope")) -> list[Finding]:
    """Looks at Yama's rule: FlashInfer's multi-node NVLink path takes file descriptors of its neighbours."""
    if not path.exists():
        return [absent("ptrace_scope", "no Yama in this kernel: nothing is restricted")]
    scope = path.read_text().strip()
    if scope != "0" and link == "nvlink":
        why = "FlashInfer's multi-node NVLink path uses pidfd_getfd, which Yama restricts"
        return [warn("ptrace_scope", scope, why, "sysctl kernel.yama.ptrace_scope=0, or leave that path off")]
    return [ok("ptrace_scope", scope)]


def journald() -> list[Finding]:
    """Looks at what journald drops and what it keeps."""
    try:
        answer = commands.ask(["systemd-analyze", "cat-config", "systemd/journald.conf"])
    except OSError as error:
        return [warn("journald", str(error), "its settings are not known")]
    if answer.code != 0:
        return [warn("journald", answer.last_line or "no answer in 10 s", "its settings are not known")]
    values = settings(answer.text)
    findings = [_rate(values)]
    storage = values.get("Storage", "auto")
    kept = storage == "persistent" or (storage == "auto" and Path("/var/log/journal").is_dir())
    if storage == "none":
        findings.append(bad("journal", "Storage=none", "faults are found in the journal", "Storage=persistent"))
    elif not kept:
        why = "lines of before a reboot are lost: a fault could not be explained afterwards"
        findings.append(warn("journal", f"Storage={storage}, in memory alone", why, "mkdir /var/log/journal"))
    else:
        findings.append(ok("journal", "kept over a reboot"))
    return findings


def settings(text: str) -> dict[str, str]:
    """Returns journald's settings; of one that is there twice the last counts."""
    pairs = (line.strip().partition("=") for line in text.splitlines() if not line.lstrip().startswith(("#", ";", "[")))
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}


def _rate(values: dict[str, Any]) -> Finding:
    interval, burst = values.get("RateLimitIntervalSec", "30s"), values.get("RateLimitBurst", "10000")
    found = f"{burst} lines in {interval} of one unit"
    if interval in ("0", "0s") or burst == "0":
        return ok("journald", "no rate limit")
    return ok("journald", f"{found}; units of ddops have none")
