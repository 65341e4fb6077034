"""The driver's Xid messages, one rule each: what NVIDIA's catalogue says and what follows from it here.

The number counts; the text behind it may be anything. Xid 45 is what every killed CUDA process leaves
behind and never a first cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..model import COREDUMP, ENGINE, IGNORE, JOURNALD, KERNEL, OTHER, PAGE, RESTART, ROLLBACK, SYSTEMD, Level, Rule

_BY = (KERNEL, ENGINE, OTHER, SYSTEMD, JOURNALD, COREDUMP)
_APP, _HARD, _LINK, _NOTE = "application", "hardware", "link", "note"

# number, class, kind, meaning
_TABLE: tuple[tuple[int, str, str, str], ...] = (
    (8, "xid_application", _APP, "the GPU stopped a channel that ran too long"),
    (13, "xid_13_graphics_exception", _APP, "an exception in a kernel: an address or an instruction out of range"),
    (
        31,
        "xid_31_mmu_fault",
        _APP,
        "a kernel used an address that is not mapped; an illegal access looks like this",
    ),
    (32, "xid_application", _APP, "a corrupted stream of commands, by the application, the driver or the bus"),
    (38, "xid_gpu_reset", _HARD, "an error in the driver's firmware"),
    (39, "xid_application", _APP, "an exception in a copy engine"),
    (43, "xid_43_channel_reset", "reset", "a channel was reset after an error of its application; the GPU is well"),
    (44, "xid_application", _APP, "a fault while contexts were switched"),
    (46, "xid_gpu_reset", _HARD, "the GPU stopped processing"),
    (48, "xid_48_double_bit_ecc", _HARD, "a double-bit error in the GPU's memory that ECC cannot correct"),
    (54, "gpu_power", _HARD, "the card's auxiliary power is not connected or not enough"),
    (56, "xid_gpu_reset", _HARD, "an error of the display engine"),
    (57, "xid_gpu_memory", _HARD, "the link to the GPU's memory cannot be trained"),
    (58, "xid_gpu_memory", _HARD, "the GPU's memory interface is unstable"),
    (61, "xid_gpu_reset", _HARD, "the GPU's microcontroller stopped with a breakpoint"),
    (62, "xid_gpu_reset", _HARD, "the GPU's microcontroller halted"),
    (63, "xid_63_row_remap", _NOTE, "a row of the GPU's memory is remapped; it takes effect with the next reset"),
    (64, "xid_64_row_remap_failed", _HARD, "a row of the GPU's memory could not be remapped: no spare row is left"),
    (66, "xid_application", _APP, "an illegal access by the driver"),
    (68, "xid_application", _APP, "an exception of the video processor"),
    (69, "xid_application", _APP, "an error in a kernel's class of commands"),
    (71, "xid_gpu_reset", _HARD, "an unrecovered error of a copy engine"),
    (72, "xid_application", _APP, "an exception of a copy engine"),
    (74, "xid_74_nvlink", _HARD, "an NVLink error: a GPU, a bridge, a switch or a cable"),
    (78, "xid_gpu_reset", _HARD, "a virtual GPU could not start"),
    (79, "gpu_fallen_off_bus", _HARD, "the GPU has fallen off the bus: power, heat, the slot, or the card"),
    (80, "xid_gpu_reset", _HARD, "corrupted data was sent to the GPU"),
    (92, "xid_gpu_memory", _NOTE, "many single-bit errors; ECC corrected them"),
    (93, "xid_note", _NOTE, "the InfoROM's wear limit"),
    (94, "xid_94_contained", "contained", "a memory error that ends the process that hit it; others go on"),
    (95, "xid_95_uncontained", _HARD, "a memory error that reaches every process on the GPU; it must be reset"),
    (
        109,
        "xid_109_context_switch",
        _HARD,
        "a context was not switched in time: a kernel hangs; the GPU must be reset",
    ),
    (110, "xid_gpu_reset", _HARD, "a security fault"),
    (119, "xid_119_gsp", _HARD, "the GPU's system processor does not answer; the GPU must be reset"),
    (120, "xid_119_gsp", _HARD, "the GPU's system processor failed; the GPU must be reset"),
    (121, "xid_c2c", _HARD, "an error on the link between the CPU and the GPU"),
    (122, "xid_gpu_reset", _HARD, "the GPU's flash cannot be read"),
    (123, "xid_gpu_reset", _HARD, "the GPU's power controller failed"),
    (124, "xid_gpu_reset", _HARD, "the GPU's flash cannot be written"),
    (125, "xid_gpu_reset", _HARD, "the InfoROM cannot be read"),
    (134, "xid_gpu_reset", _HARD, "an error of a firmware processor"),
    (136, "xid_nvlink", _LINK, "an NVLink failed to train"),
    (137, "xid_nvlink", _LINK, "an NVLink fault: a remote GPU refused or broke a transfer"),
    (140, "xid_48_double_bit_ecc", _HARD, "an unrecovered ECC error"),
    (143, "gpu_unavailable", _HARD, "the GPU failed to initialise"),
    (144, "xid_nvlink", _LINK, "an NVLink error (SAW)"),
    (145, "xid_nvlink", _LINK, "an NVLink error (RLW)"),
    (146, "xid_nvlink", _LINK, "an NVLink error (TLW)"),
    (147, "xid_nvlink", _LINK, "an NVLink error (TREX)"),
    (148, "xid_nvlink", _LINK, "an NVLink error (NVLPW_CTRL)"),
    (149, "xid_nvlink", _LINK, "an NVLink error (NETIR)"),
    (150, "xid_nvlink", _LINK, "an NVLink error (MSE)"),
    (151, "xid_gpu_reset", _HARD, "a key rotation failed"),
    (155, "xid_nvlink", _LINK, "an NVLink was brought down by software"),
    (156, "xid_63_row_remap", _NOTE, "a resource of the GPU is retired with the next reset"),
    (157, "xid_64_row_remap_failed", _HARD, "a resource of the GPU could not be retired"),
    (158, "xid_gpu_reset", _HARD, "a fatal time-out in the GPU"),
    (159, "xid_c2c", _LINK, "an error on the link between chips that was not fatal"),
    (160, "xid_63_row_remap", _NOTE, "a channel of the GPU's memory is retired with the next reset"),
    (161, "xid_64_row_remap_failed", _HARD, "a channel of the GPU's memory could not be retired"),
    (171, "xid_48_double_bit_ecc", _HARD, "an uncorrectable error in the GPU's DRAM"),
    (172, "xid_48_double_bit_ecc", _HARD, "an uncorrectable error in the GPU's SRAM"),
)
_KINDS = {
    # kind: trial, promoted, stopping, level, severity, what follows
    _APP: (ROLLBACK, RESTART, IGNORE, Level.CAUSE, "fatal", "the process that caused it must end"),
    "contained": (ROLLBACK, RESTART, IGNORE, Level.ROOT, "hardware", "again on the same GPU: have it repaired"),
    "reset": (PAGE, PAGE, IGNORE, Level.CONSEQUENCE, "degraded", "the engine's own lines tell the reason"),
    _HARD: (PAGE, PAGE, PAGE, Level.ROOT, "hardware", "no release is at fault, and known-good has the same GPU"),
    _LINK: (PAGE, PAGE, PAGE, Level.CAUSE, "hardware", "collectives hang on it while the service seems to be up"),
    _NOTE: (IGNORE, IGNORE, IGNORE, Level.CONSEQUENCE, "evidence", "nothing is to be done now"),
}
_HEAD = r"\bXid \(PCI:[^)]{0,40}\): "
_NONFATAL = r"\bNon-?fatal\b"


def _rule(number: int, fault: str, kind: str, meaning: str) -> Rule:
    trial, promoted, stopping, level, severity, follows = _KINDS[kind]
    text = "GPU has fallen off the bus." if number == 79 else "pid=40123, name=python3, Ch 0000000a"
    return Rule(
        name=f"xid-{number}",
        fault=fault,
        looks_like=(rf"{_HEAD}{number}\b",),
        anchors=("xid (pci",),
        why=f"{meaning}; {follows}",
        example=f"NVRM: Xid (PCI:0000:3b:00): {number}, {text}",
        look_alike=f"NVRM: Xid (PCI:0000:3b:00): 45, pid=40123, name=python3, Ch 00000{number}",
        trial=trial,
        promoted=promoted,
        stopping=stopping,
        level=level,
        severity=severity,
        unless=_NONFATAL if kind == _LINK else "",
        by=_BY,
        apart=kind in (_LINK, _NOTE),
    )


RULES = (
    *(_rule(*row) for row in _TABLE),
    Rule(
        "xid-45",
        "xid_45_preemptive_cleanup",
        (_HEAD + r"45\b(?![^\n]{0,300}caused by previous Xid)",),
        ("xid (pci",),
        "the driver cleans up after a process that ended; never a first cause",
        "NVRM: Xid (PCI:0000:3b:00): 45, pid=40123, name=python3, Ch 00000009",
        "NVRM: Xid (PCI:0000:45:00): 31, pid=40123, name=python3, Ch 00000009",
        trial=IGNORE,
        promoted=IGNORE,
        level=Level.CONSEQUENCE,
        severity="evidence",
        by=_BY,
    ),
    Rule(
        "xid-45-caused",
        "xid_45_preemptive_cleanup",
        (_HEAD + r"45\b[^\n]{0,300}caused by previous Xid (\d+)",),
        ("caused by previous xid",),
        "a process was ended because of an earlier hardware error, which the line names",
        "NVRM: Xid (PCI:0000:3b:00): 45, pid=40123, name=python3, Ch 00000001 caused by previous Xid 149",
        "NVRM: Xid (PCI:0000:3b:00): 45, pid=40123, name=python3, Ch 00000009",
        trial=PAGE,
        severity="hardware",
        apart=True,
        by=_BY,
    ),
    Rule(
        "xid-154",
        "xid_154_recovery_action",
        (_HEAD + r"154\b(?![^\n]{0,300}\bto 0x0 \(None\))",),
        ("xid (pci",),
        "the driver says what the GPU needs before it works again: a reset, a drain or a restart of the host",
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
        trial=PAGE,
        stopping=PAGE,
        level=Level.ROOT,
        severity="hardware",
        by=_BY,
    ),
    Rule(
        "xid-unknown",
        "xid_unknown",
        (_HEAD + r"(\d+)\b",),
        ("xid (pci",),
        "an Xid that is not in the table; NVIDIA's catalogue knows it",
        "NVRM: Xid (PCI:0000:3b:00): 399, something new",
        "NVRM: Xid (PCI:0000:3b:00): 45, pid=40123, name=python3, Ch 00000009",
        trial=PAGE,
        severity="hardware",
        unless=_NONFATAL,
        apart=True,
        by=_BY,
    ),
    Rule(
        "sxid",
        "nvswitch_error",
        (r"\bSXid \(PCI:[^)]{0,40}\): \d+, (?!Non-?fatal)(?=[^\n]{0,300}\bFatal\b)",),
        ("sxid",),
        "an NVSwitch failed; every GPU behind it is affected",
        "nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
        trial=PAGE,
        stopping=PAGE,
        level=Level.ROOT,
        severity="hardware",
        unless=r"\bNon-?fatal\b",
        by=_BY,
    ),
)  # fmt: skip

_KNOWN = {row[0] for row in _TABLE} | {45, 154}


def unknown(found: re.Match[str]) -> bool:
    """Tells whether the table holds no rule of an Xid's number."""
    return int(found.group(1)) not in _KNOWN


JUDGES: dict[str, Callable[[re.Match[str]], bool]] = {"xid-unknown": unknown}
OF_A_PROCESS = (
    *(f"xid-{number}" for number, _, kind, _ in _TABLE if kind in (_APP, "reset", "contained")),
    "xid-45",
    "xid-45-caused",
)
