"""A sandbox for programs that the model under test wrote: a transient unit that sees nothing of the host.

Its file system is empty but for /usr, read-only, and a small folder in memory; it has no network, no socket of
any kind, no device, no privilege, a user of its own, and limits on time, memory, processes, files and output. What
ends the unit is SIGKILL: nothing in it is asked. What it wrote to its output is all that comes out.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .systemd import SystemdError, systemctl

PREFIX = "ddops-sandbox-"
_STARTED = b"ddops-sandbox: started\n"
_START_S = 30.0  # systemd's own time to make the unit, on a host that is busy

OLDEST = 248  # the first systemd that knows all of the properties; an older one makes no sandbox
# an empty root, so that what is bound into it is all there is: TemporaryFileSystem=/ is ignored (systemd 252)
ROOT = Path("/run/ddops-sandbox")
_LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}
_FOLDERS = ("usr", "proc", "sys", "dev", "run", "tmp", "var/tmp", "box", "etc")
PROPERTIES = (
    f"RootDirectory={ROOT}",
    "MountAPIVFS=yes",
    "BindReadOnlyPaths=/usr -/etc/ld.so.cache",
    # of the two, /tmp would be on the host's disk: DynamicUser has it so
    "TemporaryFileSystem=/box:size=16M,nr_inodes=256,mode=1777,noexec,nosuid,nodev",
    "InaccessiblePaths=+/tmp +/var/tmp -+/dev/shm -+/dev/mqueue -+/dev/hugepages +/sys",
    "ReadOnlyPaths=+/run",
    "WorkingDirectory=/box",
    "DynamicUser=yes",
    "PrivateDevices=yes",
    "PrivateNetwork=yes",
    "PrivateIPC=yes",
    "PrivateUsers=yes",
    "RestrictAddressFamilies=AF_UNIX",
    "IPAddressDeny=any",
    "ProtectProc=invisible",
    "ProcSubset=pid",
    "ProtectSystem=strict",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@privileged @network-io @aio @ipc @keyring",
    "SystemCallFilter=~kill tkill tgkill pidfd_send_signal setpriority ioprio_set",
    "SystemCallErrorNumber=EPERM",
    "KeyringMode=private",
    "UMask=0077",
    "OOMScoreAdjust=1000",
    "OOMPolicy=kill",
    "MemorySwapMax=0",
    "TasksMax=8",
    "CPUWeight=10",
    "LimitCORE=0",
    "LimitFSIZE=4M",
    "LimitNOFILE=32",
    "LimitMEMLOCK=0",
    "KillSignal=SIGKILL",
    "SendSIGHUP=no",
    "TimeoutStopSec=2",
)


@dataclass(frozen=True)
class Limits:
    """Seconds of running, bytes of memory, bytes of output."""

    seconds: float = 5.0
    memory: int = 256 << 20
    output: int = 1 << 20


@dataclass(frozen=True)
class Ran:
    """What a program left: its output (cut at the limit), its exit code, and what stopped it.

    ``stopped`` is "", "time" or "output"; ``code`` is None where the program was stopped or never ended by itself.
    """

    output: bytes
    code: int | None
    stopped: str


def run(words: list[str], given: bytes, limits: Limits) -> Ran:
    """Runs a command with ``given`` at its input; raises SystemdError where the sandbox itself cannot be made.

    A sandbox that lacks a part of its isolation is none: systemd refuses properties that it does not know.
    """
    _make_root()
    unit = f"{PREFIX}{uuid.uuid4().hex[:12]}.service"
    try:
        process = subprocess.Popen(
            command(unit, words, limits),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**{k: v for k, v in os.environ.items() if k != "NOTIFY_SOCKET"}, "SYSTEMD_LOG_COLOR": "0"},
        )
    except OSError as error:
        raise SystemdError("systemd-run cannot be started", str(error)) from None
    try:
        output, stopped, ready = _exchange(process, given, limits)
        if stopped:
            _kill(unit)
        try:
            code = process.wait(_START_S)
        except subprocess.TimeoutExpired:
            raise SystemdError(f"{unit} does not end", "not even by SIGKILL") from None
        if not ready:
            assert process.stderr is not None  # noqa: S101 - for the type
            why = process.stderr.read(2000).decode(errors="replace").strip()
            raise SystemdError("the sandbox cannot be made", why or f"systemd-run ended with {code}")
        return Ran(output, None if stopped else code, stopped)
    finally:
        if process.poll() is None:
            _kill(unit)
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()


def command(unit: str, words: list[str], limits: Limits) -> list[str]:
    """Returns the systemd-run that makes the unit; its first output is a mark that the isolation stands."""
    made = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--unit={unit}", f"--description={unit}"]
    limit = [
        f"LimitAS={limits.memory}",
        f"MemoryMax={limits.memory}",
        f"RuntimeMaxSec={limits.seconds + 2:g}",
        f"LimitCPU={limits.seconds + 1:.0f}",
    ]
    for one in (*PROPERTIES, *limit):
        made += ["-p", one]
    mark = _STARTED.decode().strip()
    return [
        *made,
        "--",
        "/usr/bin/env",
        "-i",
        "TMPDIR=/box",
        "/usr/bin/sh",
        "-c",
        f'echo "{mark}"; exec "$@" 2>/dev/null',
        "sh",
        *words,
    ]


def _make_root() -> None:
    """Makes the empty root where it is not there; what else is in it would be seen by every program."""
    for name in _FOLDERS:
        (ROOT / name).mkdir(parents=True, exist_ok=True)
    for name, to in _LINKS.items():
        with contextlib.suppress(FileExistsError):
            (ROOT / name).symlink_to(to)


def _exchange(process: subprocess.Popen[bytes], given: bytes, limits: Limits) -> tuple[bytes, str, bool]:
    """Feeds the program and reads it until it ends or has to be stopped; returns output, why, and whether it began."""
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None  # noqa: S101, PT018 - for the type
    os.set_blocking(stdin.fileno(), False)
    output, left, began = b"", memoryview(given), 0.0
    deadline = time.monotonic() + _START_S
    while True:
        wait = deadline - time.monotonic()
        if wait <= 0:
            return output, "time", bool(began)
        readable, writable, _ = select.select([stdout], [stdin] if not stdin.closed else [], [], wait)
        if writable:
            left = _feed(stdin, left)
        if not readable:
            continue
        data = os.read(stdout.fileno(), 1 << 16)
        output += data
        if not began and output.startswith(_STARTED):
            began, output = time.monotonic(), output[len(_STARTED) :]
            deadline = began + limits.seconds
        if not data:
            return output, "", bool(began)
        if len(output) > limits.output:
            return output[: limits.output], "output", bool(began)


def _feed(stdin: IO[bytes], left: memoryview) -> memoryview:
    """Writes what the pipe takes; closes it at the end, or where the program reads no more."""
    try:
        left = left[os.write(stdin.fileno(), left[: 1 << 16]) :] if left else left
    except BlockingIOError:
        return left
    except OSError:
        left = left[:0]
    if not left:
        with contextlib.suppress(OSError):
            stdin.close()
    return left


def _kill(unit: str) -> None:
    systemctl("kill", "--signal=SIGKILL", "--kill-who=all", unit, check=False, timeout=20)
    systemctl("stop", unit, check=False, timeout=20)
