"""The GPUs as their driver tells them, against what the profile says."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from .. import commands
from . import Finding, absent, bad, ok, warn

FIELDS = ("index", "name", "driver_version", "compute_cap", "memory.total", "power.limit")
TIMEOUT_S = 20.0  # without persistence mode the driver takes some seconds to wake eight GPUs
_TOLERANCE = 0.02  # of memory: the driver's figure differs by some MiB between versions and with ECC
_DRIVER = Path("/proc/driver/nvidia/version")


def check(hardware: dict[str, Any] | None, timeout: float = TIMEOUT_S) -> list[Finding]:
    """Compares the host's GPUs with a profile's ``hardware`` (None: there is no profile to compare with)."""
    arch = ok("arch", platform.machine())
    wanted = int(hardware["gpus"]) if hardware else 0
    try:
        answer = commands.ask(
            ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"], timeout
        )
    except OSError:
        if wanted:
            why = f"the profile wants {wanted} of {hardware['arch']}" if hardware else ""
            return [arch, bad("gpus", "nvidia-smi is not on this host", why, "install NVIDIA's driver")]
        return [arch, absent("gpus", "no nvidia-smi, and none is wanted" if hardware else "no nvidia-smi")]
    if answer.code is None:
        why = "a driver that does not answer has lost a GPU, or is about to"
        return [arch, bad("gpus", f"nvidia-smi did not end in {timeout:g} s", why, "dmesg | grep -i xid; then reboot")]
    if answer.code != 0:
        why = "the driver does not work"
        return [arch, bad("gpus", answer.last_line or f"nvidia-smi ended with {answer.code}", why, _next())]
    try:
        found = parse(answer.text)
    except ValueError as error:
        return [arch, bad("gpus", f"nvidia-smi says what is not understood: {error}", "a GPU may be lost", _next())]
    return [arch, *compare(found, hardware)]


def parse(text: str) -> list[dict[str, Any]]:
    """Returns each GPU of nvidia-smi's CSV, by field; a figure that it does not know is None.

    Memory is in MiB, the power limit in watts, ``compute_cap`` becomes sm_NN. Raises ValueError for other text.
    """
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        values = [value.strip() for value in line.split(",")]
        if len(values) != len(FIELDS) or not values[0].isdigit():
            raise ValueError(line.strip())
        known = [None if value.startswith("[") else value for value in values]
        gpu: dict[str, Any] = dict(zip(FIELDS, known))
        for field in ("memory.total", "power.limit"):
            gpu[field] = None if gpu[field] is None else float(gpu[field])
        if gpu["compute_cap"]:
            gpu["compute_cap"] = "sm_" + str(gpu["compute_cap"]).replace(".", "")
        found.append(gpu)
    return found


def compare(found: list[dict[str, Any]], hardware: dict[str, Any] | None) -> list[Finding]:
    """Returns the findings about GPUs, driver and power limit."""
    if not found:
        wanted = int(hardware["gpus"]) if hardware else 0
        if wanted:
            return [bad("gpus", "none", f"the profile wants {wanted}", "lspci | grep -i nvidia")]
        return [absent("gpus", "the driver is here, and no GPU")]
    drivers = sorted({str(gpu["driver_version"]) for gpu in found})
    findings = [_gpus(found, hardware), ok("driver", ", ".join(drivers)), _power(found, hardware)]
    if hardware and hardware["gpus"]:
        findings[1:1] = [_architecture(found, hardware), _memory(found, hardware)]
    return findings


def _gpus(found: list[dict[str, Any]], hardware: dict[str, Any] | None) -> Finding:
    names = sorted({str(gpu["name"]) for gpu in found})
    text = f"{len(found)} x {', '.join(names)}"
    wanted = int(hardware["gpus"]) if hardware else 0
    if len(found) < wanted:
        return bad("gpus", text, f"the profile wants {wanted}: one may be lost", "dmesg | grep -i xid; nvidia-smi")
    return ok("gpus", text)


def _architecture(found: list[dict[str, Any]], hardware: dict[str, Any]) -> Finding:
    here = sorted({str(gpu["compute_cap"]) for gpu in found})
    if here != [hardware["arch"]]:
        why = f"the profile is for {hardware['arch']}: its kernels and limits are others"
        return bad("gpu arch", ", ".join(here), why, "name the right profile in the site file; ddops profile list")
    return ok("gpu arch", here[0])


def _memory(found: list[dict[str, Any]], hardware: dict[str, Any]) -> Finding:
    want = int(hardware["gpu_memory_mib"])
    sizes = [gpu["memory.total"] for gpu in found]
    if None in sizes:
        return bad("gpu memory", "one GPU does not tell its memory", "it may be lost", _next())
    text = f"{min(sizes):.0f} MiB each"
    why = f"the profile is for {want} MiB: the limits of a budget were reckoned for that"
    if min(sizes) < want * (1 - _TOLERANCE):
        return bad("gpu memory", text, why, "name the right profile in the site file")
    if max(sizes) > want * (1 + _TOLERANCE):
        return warn("gpu memory", text, why, "hosts.NAME.overrides: hardware: {gpu_memory_mib: ...}")
    return ok("gpu memory", text)


def _power(found: list[dict[str, Any]], hardware: dict[str, Any] | None) -> Finding:
    limits = [gpu["power.limit"] for gpu in found if gpu["power.limit"] is not None]
    if not limits:
        return absent("power limit", "the driver does not tell one")
    text = f"{min(limits):.0f} W" + ("" if min(limits) == max(limits) else f" to {max(limits):.0f} W")
    want = int(hardware["power_watts"]) if hardware else 0
    if min(limits) < want:
        why = f"the profile says {want} W: throughput is measured against that"
        return warn("power limit", text, why, f"nvidia-smi -pl {want}")
    return ok("power limit", text)


def _next() -> str:
    if _DRIVER.exists():
        return "nvidia-smi; dmesg | grep -i nvrm"
    return "modprobe nvidia; dmesg | grep -i nvrm"
