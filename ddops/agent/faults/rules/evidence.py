"""Gaps in what can be read. They are never health, and never a fault of the engine by themselves."""

from __future__ import annotations

from ..model import COREDUMP, ENGINE, JOURNALD, KERNEL, OTHER, PAGE, RESTART, SYSTEMD, Level, Rule

RULES = (
    Rule(
        name="journal-suppressed",
        fault="journald_rate_limit",
        looks_like=(
            r"\bSuppressed \d+ messages from \S+",
            r"\bN_DROPPED=\d+",
            r"^Missed \d+ kernel messages",
            r"\bprintk: \d+ (?:kernel )?messages? (?:were )?(?:dropped|suppressed)",
        ),
        anchors=("suppressed", "n_dropped", "missed ", "printk"),
        why="journald threw lines of the service away: a fault may be among them",
        example="Suppressed 1201 messages from sglang.service",
        look_alike="Forwarding to syslog missed 12 messages.",
        trial=PAGE,
        severity="evidence",
        by=(JOURNALD, KERNEL),
        apart=True,
    ),
    Rule(
        name="journal-damaged",
        fault="journal_damaged",
        looks_like=(
            r"\.journal~? (?:is )?corrupt(?:ed)?\b",
            r"\bcorrupted or uncleanly shut down, renaming and replacing",
            r"\bFailed to (?:write|append) (?:entry|to journal)[^\n]{0,300}",
            r"\bJournal file \S+ is truncated",
        ),
        anchors=("corrupted", "corrupt", "failed to write entry", "failed to append", "is truncated"),
        why="a journal file was damaged or an entry was not written: lines of the service may be lost",
        example="File /var/log/journal/0f/system.journal corrupted or uncleanly shut down, renaming and replacing.",
        look_alike="Runtime Journal (/run/log/journal/0f) is 8.0M, max 641.3M, 633.3M free.",
        trial=PAGE,
        severity="evidence",
        by=(JOURNALD, SYSTEMD),
        apart=True,
    ),
    Rule(
        name="journald-crashed",
        fault="core_dump",
        looks_like=(
            r"\bProcess \d+ \(systemd-journal\w*\) of user \d+ (?:dumped core|terminated abnormally)",
            (
                r"\bsystemd-journald\.service: (?:Main process exited, code=(?:killed|dumped)|Watchdog timeout|Failed"
                " with result)"
            ),
        ),
        anchors=("(systemd-journal", "systemd-journald.service"),
        why="journald itself crashed: the log has a hole",
        example="Process 477 (systemd-journal) of user 0 dumped core.",
        look_alike="Process 900 (gnome-shell) of user 1000 dumped core.",
        trial=PAGE,
        stopping=PAGE,
        severity="evidence",
        by=(COREDUMP, SYSTEMD, JOURNALD, KERNEL),
        apart=True,
    ),
    Rule(
        name="core-dump",
        fault="core_dump",
        looks_like=(
            (
                r"\bProcess \d+ \((?:python[\d.]*|pt_main_thread|sglang\S*|vllm\S*|VLLM\S*|ray::\S*(?:SGLang"
                r"|Engine)\S*)\) of user \d+ (?:dumped core|terminated abnormally)"
            ),
        ),
        anchors=("dumped core", "terminated abnormally"),
        why="a process of the engine crashed and its memory was written to the disk, which such dumps fill",
        example="Process 40123 (pt_main_thread) of user 998 dumped core.",
        look_alike="Process 900 (gnome-shell) of user 1000 dumped core.",
        promoted=RESTART,
        level=Level.SYMPTOM,
        by=(COREDUMP, SYSTEMD),
    ),
    Rule(
        name="unreadable-line",
        fault="journal_null_message",
        looks_like=(),
        anchors=(),
        why=(
            "the first part of a line that journald cut cannot be read, so nobody knows what it said; export"
            " with `--all`"
        ),
        example="an entry with _LINE_BREAK=line-max whose MESSAGE is null",
        look_alike="an entry whose MESSAGE is null and that was not cut",
        severity="evidence",
        by=(ENGINE, OTHER),
        apart=True,
    ),
)
