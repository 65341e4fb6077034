"""What no line tells: the supervisor sees it and says so by the rule's name."""

from __future__ import annotations

from ..model import IGNORE, RESTART, Level, Rule

RULES = (
    Rule(
        name="engine-ended",
        fault="service_exit_failure",
        looks_like=(),
        anchors=(),
        why="the main process of the engine is gone, killed or with an error",
        example="MainPID is gone, code=killed, status=9",
        look_alike="MainPID is gone after ddops stopped the unit",
        promoted=RESTART,
        level=Level.CONSEQUENCE,
    ),
    Rule(
        name="engine-ended-0",
        fault="service_exit_success_but_dead",
        looks_like=(),
        anchors=(),
        why=("the main process of the engine is gone with status 0 while it should serve: systemd calls that success"),
        example="MainPID is gone, code=exited, status=0, and nobody asked for a stop",
        look_alike="MainPID is gone with status 0 after ddops stopped the unit",
        level=Level.CONSEQUENCE,
    ),
    Rule(
        name="scheduler-gone",
        fault="scheduler_dead_parent_alive",
        looks_like=(),
        anchors=(),
        why=("a scheduler process is gone or a zombie and the HTTP parent lives on: requests hang, the unit is active"),
        example="sglang::scheduler_TP1 is gone from the unit's control group, the main process is not",
        look_alike="the draft worker's helper process ended after the load",
        promoted=RESTART,
        level=Level.SYMPTOM,
    ),
    Rule(
        name="no-decode",
        fault="engine_hangs",
        looks_like=(),
        anchors=(),
        why="requests wait and nothing is decoded: the engine hangs though its process lives",
        example="#queue-req is 7 and no decode line came for 60 s",
        look_alike="no decode line for an hour and no request either",
        starting=IGNORE,
        level=Level.SYMPTOM,
    ),
    Rule(
        name="journal-lost",
        fault="journal_lost",
        looks_like=(),
        anchors=(),
        why="the journal of the engine cannot be read any more: no evidence is not good evidence",
        example="sd_journal_next: error 5",
        look_alike="no new line in the journal",
        severity="evidence",
        level=Level.CONSEQUENCE,
    ),
)
