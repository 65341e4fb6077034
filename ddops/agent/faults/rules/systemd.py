"""What systemd says of the service, in the words of its versions from 219 to today."""

from __future__ import annotations

from ..model import ENGINE, PAGE, RESTART, SYSTEMD, Level, Rule

RULES = (
    Rule(
        name="unit-oom-kill",
        fault="host_oom_killer",
        looks_like=(
            r"\.(?:service|scope): Failed with result 'oom-kill'",
            r"\.(?:service|scope): A process of this unit has been killed by the OOM killer",
            r"\bKilled \S+\.(?:service|scope) due to memory (?:pressure|used)",
            r"\.(?:service|scope): systemd-oomd killed",
        ),
        anchors=("oom-kill", "oom killer", "due to memory", "systemd-oomd killed"),
        why="the kernel or systemd-oomd killed a process of the service for memory of the host",
        example="systemd[1]: sglang.service: A process of this unit has been killed by the OOM killer.",
        look_alike="systemd[1]: user.slice: A process of this unit has been killed by the OOM killer.",
        level=Level.ROOT,
        by=(SYSTEMD,),
    ),
    Rule(
        name="unit-crashed",
        fault="segv",
        looks_like=(
            (
                r"\.service: (?:main|control) process exited, code=(?:killed|dumped), status=(?:4/ILL|7/BUS|8/FPE"
                "|11/SEGV|31/SYS|5/TRAP)"
            ),
            r"\bFailed with result 'core-dump'",
        ),
        anchors=("process exited", "'core-dump'"),
        why="the service's main process crashed",
        example="systemd[1]: sglang.service: Main process exited, code=dumped, status=11/SEGV",
        look_alike="systemd[1]: sglang.service: Deactivated successfully.",
        promoted=RESTART,
        level=Level.SYMPTOM,
        by=(SYSTEMD,),
    ),
    Rule(
        name="unit-aborted",
        fault="sigabrt",
        looks_like=(r"\.service: (?:main|control) process exited, code=(?:killed|dumped), status=6/ABRT",),
        anchors=("process exited",),
        why="the service's main process aborted itself",
        example="systemd[1]: sglang.service: Main process exited, code=killed, status=6/ABRT",
        look_alike="systemd[1]: sglang.service: Consumed 3h 12min 5.100s CPU time.",
        promoted=RESTART,
        level=Level.SYMPTOM,
        by=(SYSTEMD,),
    ),
    Rule(
        name="unit-killed",
        fault="sigkill",
        looks_like=(
            (
                r"\.service: (?:main|control) process exited, code=(?:killed|dumped), status=(?!15/|2/|1/|6/|11/|4/"
                r"|7/|8/|31/|5/)\d+/\w+"
            ),
            r"\bFailed with result 'signal'",
        ),
        anchors=("process exited", "'signal'"),
        why="the service's main process was killed: SGLang kills itself with SIGKILL after every fault",
        example="systemd[1]: sglang.service: Main process exited, code=killed, status=9/KILL",
        look_alike="systemd[1]: sglang.service: Killing process 812 (python3) with signal SIGKILL.",
        promoted=RESTART,
        level=Level.CONSEQUENCE,
        by=(SYSTEMD,),
    ),
    Rule(
        name="unit-cannot-run",
        fault="unit_cannot_run",
        looks_like=(
            r"\.service: (?:main|control) process exited, code=exited, status=2\d\d/[A-Z_]+",
            r"\bFailed at step [A-Z_]+ spawning",
            r"\b(?:Unable|Failed) to locate executable",
            (
                r"\bFailed to (?:execute|load environment files?|set up (?:mount namespacing|credentials|standard \w+"
                r"|user namespac\w+)|spawn)"
            ),
            r"\bChanging to the requested working directory failed",
            r"\bFailed to determine (?:user|group) credentials",
            r"\bUnit \S+\.service (?:has a bad unit file setting|not found|could not be found|is masked)",
            r"\bFailed to start \S+\.service: Unit",
            r"\.service: (?:Service|Unit) has (?:no|more than one) ExecStart",
            r"\bbad unit file setting",
            r"\bFailed to load configuration: ",
            r"\bDependency failed for \S",
        ),
        anchors=(
            "process exited",
            "failed at step",
            "unable to locate",
            "failed to ",
            "changing to the requested",
            "bad unit file",
            "not found",
            "could not be found",
            "is masked",
            "execstart",
            "dependency failed",
        ),
        why="systemd could not even start the process: a path, a user or a unit file is wrong",
        example=(
            "systemd[812]: sglang.service: Failed at step EXEC spawning /opt/venv/bin/python: No such file or directory"
        ),
        look_alike="systemd[1]: Reloading finished in 212 ms.",
        by=(SYSTEMD,),
        unless=r"\bNetworkManager|\.mount\b|\.device\b",
    ),
    Rule(
        name="unit-failed",
        fault="service_exit_failure",
        looks_like=(
            r"\.service: (?:main|control) process exited, code=exited, status=(?!0/|143/|130/|2\d\d/)\d+/",
            r"\bFailed with result '(?:exit-code|protocol|resources|exec-condition|watchdog)'",
            r"\bUnit \S+\.service entered failed state",
            r"^\S+\.service failed\.$",
            r"\bFailed to start \S",
        ),
        anchors=("process exited", "failed with result", "entered failed state", "service failed.", "failed to start"),
        why="the service's main process ended with an error; its own last lines tell why",
        example="systemd[1]: sglang.service: Main process exited, code=exited, status=1/FAILURE",
        look_alike="systemd[1]: sglang.service: Main process exited, code=exited, status=143/n/a",
        promoted=RESTART,
        level=Level.CONSEQUENCE,
        by=(SYSTEMD,),
    ),
    Rule(
        name="unit-restarted",
        fault="service_exit_failure",
        looks_like=(
            r"\bScheduled restart job, restart counter is at",
            r"\bholdoff time over, scheduling restart",
            r"\bhold-off time over, scheduling restart",
            r"\bService RestartSec=\S+ expired, scheduling restart",
        ),
        anchors=("restart job", "scheduling restart"),
        why="systemd restarts the service by itself: its process had ended",
        example="systemd[1]: sglang.service: Scheduled restart job, restart counter is at 4.",
        look_alike="systemd[1]: Stopped sglang.service - SGLang.",
        level=Level.CONSEQUENCE,
        by=(SYSTEMD,),
    ),
    Rule(
        name="start-limit",
        fault="start_limit_hit",
        looks_like=(
            r"\b[Ss]tart request repeated too quickly",
            r"\bFailed with result '(?:start-limit-hit|start-limit)'",
        ),
        anchors=("repeated too quickly", "start-limit"),
        why=("systemd gave up restarting; the unit stays down, and a start is refused until `systemctl reset-failed`"),
        example="systemd[1]: sglang.service: Start request repeated too quickly.",
        look_alike="systemd[1]: Started sglang.service - SGLang.",
        level=Level.CONSEQUENCE,
        by=(SYSTEMD,),
    ),
    Rule(
        name="start-timeout",
        fault="start_timeout",
        looks_like=(
            r"\.service: [Ss]tart(?:-\w+)? operation timed out",
            r"\.service start operation timed out",
            r"\bState 'start(?:-\w+)?' timed out",
        ),
        anchors=("timed out",),
        why="the service did not come up within TimeoutStartSec",
        example="systemd[1]: sglang.service: start operation timed out. Terminating.",
        look_alike="systemd[1]: sglang.service: State 'stop-sigterm' timed out. Killing.",
        level=Level.SYMPTOM,
        by=(SYSTEMD,),
    ),
    Rule(
        name="stop-timeout",
        fault="stop_timeout",
        looks_like=(
            r"\bState '(?:stop-sig\w+|stop|stop-post|final-sig\w+|stop-watchdog)' timed out",
            r"\bstop(?:ping|-sigterm|-sigkill|-post|-final-sig\w+)? timed out\.",
            r"\.service: Failed with result 'timeout'",
        ),
        anchors=("timed out", "result 'timeout'"),
        why="the old engine did not stop in its time and was killed; its requests were lost",
        example="systemd[1]: sglang.service: State 'stop-sigterm' timed out. Killing.",
        look_alike="systemd[1]: sglang.service: start operation timed out. Terminating.",
        trial=PAGE,
        stopping=PAGE,
        severity="degraded",
        level=Level.SYMPTOM,
        by=(SYSTEMD,),
    ),
    Rule(
        name="cannot-be-killed",
        fault="process_cannot_be_killed",
        looks_like=(
            r"\bProcesses still around after (?:final )?SIGKILL",
            r"\bstill around after SIGKILL",
        ),
        # "remains running after unit stopped" and "Found left-over process" are said of what is dying, too, where
        # systemd does not wait for it: on cgroup v1 in a container
        anchors=("still around after",),
        why="a process of the engine does not die: it hangs in the GPU driver and holds the GPU's memory",
        example="systemd[1]: sglang.service: Processes still around after SIGKILL. Ignoring.",
        look_alike="systemd[1]: sglang.service: Unit process 812 (python3) remains running after unit stopped.",
        trial=PAGE,
        stopping=PAGE,
        level=Level.ROOT,
        by=(SYSTEMD,),
    ),
    Rule(
        name="daemon-reload",
        fault="daemon_reload_needed",
        looks_like=(
            r"\bchanged on disk\. Run 'systemctl (?:--\w+ )?daemon-reload'",
            r"\bchanged on disk, 'systemctl daemon-reload' recommended",
        ),
        anchors=("changed on disk",),
        why="systemd runs the old text of the unit: a change was written and not loaded",
        example=(
            "Warning: The unit file, source configuration file or drop-ins of sglang.service changed on disk."
            " Run 'systemctl daemon-reload' to reload units."
        ),
        look_alike="systemd[1]: Reloading requested from client PID 812 ('systemctl')...",
        trial=PAGE,
        stopping=PAGE,
        severity="evidence",
        by=(SYSTEMD, ENGINE),
        apart=True,
    ),
    Rule(
        name="exit-0",
        fault="service_exit_success_but_dead",
        looks_like=("^SubState=dead$",),
        anchors=("substate=dead",),
        why=(
            "the process is gone with status 0 while the service should serve: systemd calls that success and"
            " restarts nothing"
        ),
        example="ActiveState=inactive\nSubState=dead",
        look_alike="SubState=running",
        level=Level.CONSEQUENCE,
        by=(SYSTEMD, ENGINE),
    ),
)
