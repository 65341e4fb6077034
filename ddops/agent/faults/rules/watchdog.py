"""Engines that stand still: SGLang's watchdog, its health check."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..model import IGNORE, PAGE, RESTART, SYSTEMD, Level, Rule

_CLOCK = r"(\d{1,2}):(\d\d):(\d\d)(?:\.\d+)?"
_STUCK_S = 60  # a heartbeat older than this at the check's start is no busy engine
_HEALTH = (
    r"Health check failed\. Server couldn't get a response from detokenizer[^\n]*?"
    r"tic start time: " + _CLOCK + r"\.? last_heartbeat time: " + _CLOCK
)

RULES = (
    Rule(
        name="scheduler-watchdog",
        fault="scheduler_watchdog_timeout",
        looks_like=(
            r"\bwatchdog timeout \(self\.watchdog_timeout=[\d.]+(?!, self\.soft=True)",
            r"\bwatchdog timeout \((?!self|limit)[^)]*\)",
            r"\bScheduler (?:watchdog|hang) (?:detected|triggered)",
        ),
        anchors=("watchdog timeout", "scheduler watchdog", "scheduler hang"),
        why="the scheduler made no step for the watchdog's time: a kernel or a collective hangs",
        example="[2026-03-01 10:00:00 DP0 TP0] Watchdog timeout (self.watchdog_timeout=300)",
        look_alike="Detokenizer watchdog timeout (self.watchdog_timeout=300, self.soft=True)",
        unless=r"self\.soft=True",
    ),
    Rule(
        name="soft-watchdog",
        fault="scheduler_watchdog_timeout",
        looks_like=(r"\bwatchdog timeout \([^)]*self\.soft=True",),
        anchors=("self.soft=true",),
        why="a soft watchdog only writes a dump and the server goes on; again and again it is a hang",
        example="Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)",
        look_alike="server_args=ServerArgs(soft_watchdog_timeout=60)",
        trial=PAGE,
        severity="degraded",
        level=Level.SYMPTOM,
        lives_on=True,
        repeat=3,
        withdraws=("scheduler-dump",),
    ),
    Rule(
        name="scheduler-dump",
        fault="scheduler_watchdog_timeout",
        looks_like=(
            "^Scheduler debug info:",
            r"\bscheduler\.cur_batch\.batch_size\(\)=",
            r"\bself\.cur_batch\.batch_size\(\)=",
        ),
        anchors=("debug info:", "cur_batch.batch_size()="),
        why="the watchdog writes what the scheduler was doing before it ends it",
        example="[2026-03-01 10:00:00 TP0] Scheduler debug info:",
        look_alike="Py-Spy dump is available with --debug",
        level=Level.SYMPTOM,
    ),
    Rule(
        name="health-check-stuck",
        fault="health_check_failed",
        looks_like=(
            (
                r"Health check failed\. Server couldn't get a response from detokenizer[^\n]*?tic start time: "
                r"(\d{1,2}):(\d\d):(\d\d)(?:\.\d+)?\.? last_heartbeat time: (\d{1,2}):(\d\d):(\d\d)(?:\.\d+)?"
            ),
        ),
        anchors=("health check failed",),
        why=(
            "the detokenizer has given no sign for minutes: the scheduler is dead or hangs, though its parent answers"
        ),
        example=(
            "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start"
            " time: 10:30:00. last_heartbeat time: 10:21:07"
        ),
        look_alike=(
            "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start"
            " time: 10:30:00. last_heartbeat time: 10:29:58"
        ),
        promoted=RESTART,
        starting=IGNORE,
        level=Level.SYMPTOM,
    ),
    Rule(
        name="health-check-late",
        fault="health_check_failed",
        looks_like=(r"\bHealth check failed\b",),
        anchors=("health check failed",),
        why="a health check failed again and again and nothing was decoded in between",
        example="Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
        look_alike="Health check request received during shutdown. Returning 503.",
        promoted=RESTART,
        starting=IGNORE,
        level=Level.SYMPTOM,
        repeat=3,
    ),
    Rule(
        name="systemd-watchdog",
        fault="scheduler_watchdog_timeout",
        looks_like=(
            r"\.service: Watchdog timeout \(limit [^)]+\)",
            r"\.service watchdog timeout",
        ),
        anchors=("watchdog timeout",),
        why="systemd heard nothing from the service for WatchdogSec and killed it",
        example="systemd[1]: sglang.service: Watchdog timeout (limit 30s)!",
        look_alike="systemd[1]: Using hardware watchdog 'iTCO_wdt', version 0, device /dev/watchdog0",
        promoted=RESTART,
        level=Level.SYMPTOM,
        by=(SYSTEMD,),
    ),
)


def stuck(found: re.Match[str]) -> bool:
    """Tells whether the last heartbeat is much older than the check: a busy engine's is some seconds old."""
    hours = [int(part) for part in found.groups()]
    start, beat = (h * 3600 + m * 60 + s for h, m, s in (hours[:3], hours[3:]))
    return _STUCK_S <= (start - beat) % 86400 < 43200


JUDGES: dict[str, Callable[[re.Match[str]], bool]] = {"health-check-stuck": stuck}
