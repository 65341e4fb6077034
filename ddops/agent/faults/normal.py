"""A journal line without its wrapping: who wrote it, about which unit, on which rank, and the bare words."""

from __future__ import annotations

import re
from typing import NamedTuple

from .model import COREDUMP, JOURNALD, KERNEL, OTHER, SYSTEMD

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_RANK = re.compile(r"\b((?:DP|TP|PP|EP|CP)\d+)\b|\[rank\s?(\d+)\]|\(Worker_((?:DP|TP|PP|EP)\d+)", re.IGNORECASE)

_IDENT = r"(?P<ident>[^\s\[\]:]+)(?:\[(?P<pid>\d+)\])?: "
_PREFIXES = tuple(
    re.compile(text)
    for text in (
        r"\d{4}-\d\d-\d\dT\S+ (?:stdout|stderr) [FP] ?",  # CRI
        r"\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)? (?:[^\s\[\]:]+ )?" + _IDENT,  # journalctl -o short-iso, rsyslog
        # journalctl -o short, in any language
        r"[^\W\d]{2,5}\.? {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d+)? [^\s\[\]:]+ " + _IDENT,
        # journalctl -o short-full, -o with-unit (which names the unit), -o short-unix, -o short-monotonic
        r"[^\W\d]{2,5}\.? \d{4}-\d\d-\d\d [\d:.]+ [A-Z+\-][\w+\-:]* [^\s\[\]:]+ " + _IDENT,
        r"\d{10}\.\d{6} [^\s\[\]:]+ " + _IDENT,
        r"\[ *\d+\.\d{6}(?: <[^>]*>)?\] [^\s\[\]:]+ (?P<ident>kernel(?=: )|[^\s\[\]:]+(?=\[\d+\]: ))(?:\[\d+\])?: ",
        r"(?P<ident>kernel|systemd|systemd-journald|systemd-coredump|systemd-oomd): ",
        r"(?P<ident>[A-Za-z][\w.\-]*)\[\d+\]: (?!segfault|traps|general protection)",
        r"\[pod/[^\]]+\] ",  # kubectl logs --prefix
        r"\[ *\d+\.\d{3,6}\](?:\[ *[TC]\d+\])? (?=(?P<dmesg>))",  # dmesg
        r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\] (?=(?P<dmesg>))",  # dmesg -T
        r"<[0-7]>",  # sd-daemon
        r"[│┃║╎|]\s*",  # a terminal's box
        r"[\w.\-]+ *\| (?!.*\|)",  # docker compose
        r"\([\w:.\-]+(?: [^()]*?)?pid=\d+[^()]*\) ?",  # Ray, vLLM
        r"\[?\d{4}-\d\d-\d\d[ T][\d:.,]+(?: [A-Z]{2}\d+)*\] ",  # SGLang
        r"\[\d\d:\d\d:\d\d(?: [A-Z]{2}\d+)*\] ",
        r"\[(?:[A-Z]{2}\d+ ?)+\] ",
        r"\[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\]? +\d\d-\d\d [\d:.]+ \[?[\w./\-]+:\d+\] ",  # vLLM
        r"\d{4}-\d\d-\d\d [\d:,.]+ (?:-|\|)?(?: ?[\w.]+ -)? ?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) ?(?:-|\|)? ",
        r"\d{4}-\d\d-\d\d [\d:,.]+:? (?=\S)",
        r"(?:\[\d+\] |\[default\d+\]:)?\[rank\d+\]:",  # torch, torchrun
        r"\[default\d+\]:",
        r"(?:ERROR|CRITICAL|FATAL): +",
    )
)
_HEADS = frozenset("0123456789[<│┃║╎|(DIWECF")
_SERVICE = re.compile(r"([\w@.\-\\:]+\.(?:service|scope))\b")
_OTHER_UNIT = re.compile(r"([\w@.\-\\:]+\.(?:slice|socket|mount|timer|device|swap))\b")
_KERNEL_TEXT = re.compile(r"NVRM: |nvidia-nvswitch\d|Memory cgroup out of memory: |oom-kill:constraint=")
# units that never serve a model: their end is not the service's end
_NEVER_A_MODEL = re.compile(
    r"(?:systemd-|user@|user-|session-|getty|dbus|ssh|cron|docker|containerd|crio|kubelet|snapd?|postgres|mysql|mariadb"
    r"|redis|nginx|apache2?|httpd|prometheus|grafana|node[_-]exporter|dcgm|nvidia-|telegraf|rsyslog|NetworkManager"
    r"|packagekit|polkit|udisks|cups|gdm|display-manager|lightdm|apt-|unattended|fwupd|logrotate|train|slurm|jupyter"
    r"|run-|init\.scope|machine|libvirt|avahi|bluetooth|chrony|ntp|rpc|nfs|multipath|lvm|irqbalance|tuned|auditd)",
    re.IGNORECASE,
)
_NOT_ENGINES = frozenset(
    [
        "sshd",
        "sshd-session",
        "dockerd",
        "containerd",
        "cron",
        "CRON",
        "crond",
        "sudo",
        "su",
        "login",
        "postgres",
        "mysqld",
        "redis-server",
        "nginx",
        "rsyslogd",
        "dbus-daemon",
        "NetworkManager",
        "polkitd",
        "snapd",
        "kubelet",
        "systemd-logind",
        "systemd-networkd",
        "systemd-resolved",
        "auditd",
    ]
)


class Line(NamedTuple):
    """``text`` holds the words, prefixes off; ``writer`` is empty where nothing tells who wrote them."""

    text: str
    writer: str
    unit: str
    ranks: tuple[str, ...]


def clean(message: str) -> str:
    """Takes the terminal's codes out; a carriage return ends a line of a progress bar."""
    if "\x1b" in message:
        message = _ANSI.sub("", message)
    return message.replace("\r", "\n") if "\r" in message else message


def _bare(line: str) -> tuple[str, str]:
    """Takes the prefixes off one line; returns it and the writer that they name."""
    writer = ""
    for _ in range(6):
        line = line.lstrip()
        if not line or (line[0] not in _HEADS and not line[0].isalpha()):
            break
        for prefix in _PREFIXES:
            found = prefix.match(line)
            if found is None or not found.end():
                continue
            groups = found.groupdict()
            if "dmesg" in groups:
                writer = writer or KERNEL
            if ident := groups.get("ident"):
                writer = writer_of(ident) or writer
            line = line[found.end() :]
            break
        else:
            break
    return line.rstrip(" │┃║╎"), writer


def writer_of(identifier: str) -> str:
    """Returns who an identifier stands for; empty if it may be the engine's own."""
    if identifier == "kernel":
        return KERNEL
    if identifier in ("systemd", "systemd-oomd", "init", "init.scope"):
        return SYSTEMD
    if identifier == "systemd-journald":
        return JOURNALD
    if identifier == "systemd-coredump":
        return COREDUMP
    other_unit = identifier.endswith((".service", ".scope")) and not may_serve_a_model(identifier)
    return OTHER if other_unit or identifier in _NOT_ENGINES else ""


def normal(message: str, writer: str = "", unit: str = "") -> Line:
    """Returns a message's bare words. What the journal's fields say of writer and unit goes before its text."""
    ranks = tuple(sorted({(a or c).upper() or f"rank{b}" for a, b, c in _RANK.findall(message)}))
    parts = []
    for part in message.split("\n"):
        bare, named = _bare(part)
        writer = writer or named
        parts.append(bare)
    text = "\n".join(parts)
    if not writer and _KERNEL_TEXT.match(text):
        writer = KERNEL
    if not unit and writer in ("", SYSTEMD, JOURNALD):
        unit = unit_in(text)
        if unit and not writer and text.startswith((unit + ":", f"Unit {unit} ", f"{unit} ")):
            writer = SYSTEMD
    return Line(text, writer, unit, ranks)


def unit_in(text: str) -> str:
    """Returns the first unit's name in a line."""
    found = _SERVICE.search(text) or _OTHER_UNIT.search(text)
    return found.group(1) if found else ""


def may_serve_a_model(unit: str) -> bool:
    """Tells whether a unit can be the one in question where nobody named it."""
    return not _NEVER_A_MODEL.match(unit) and unit.endswith((".service", ".scope"))
