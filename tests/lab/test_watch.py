"""``ddops watch``: what it tells of a service, over lost connections and on terminals."""

from __future__ import annotations

import itertools
import json
import os
import pty
import select
import signal
import subprocess
import termios
from typing import Any

import pytest

from .service_host import STATE, ServiceHost, wait_for

pytestmark = pytest.mark.lab


def test_watch_tells_states_and_incidents_across_a_lost_connection(served: ServiceHost) -> None:
    client = served.start("watch")
    assert client.stdout
    first = json.loads(client.stdout.readline())
    assert (first["event"], first["release"], first["budget"], first["front"]) == ("state", 1, 8, "open")
    assert (first["accept_len"], first["graphs"]) == (2.0, False)

    def until(kind: str) -> dict[str, Any]:
        assert client.stdout
        for line in itertools.islice(client.stdout, 120):  # there is a state each second
            event: dict[str, Any] = json.loads(line)
            if event["event"] == kind:
                return event
        raise AssertionError(f"no {kind} among 120 events")

    served.lab.cut(served.name)
    until("lost")
    served.on("systemctl", "kill", "-s", "KILL", "lab-0001.service")
    wait_for(lambda: served.file(f"{STATE}/incidents.jsonl"), 20, "the end is found")
    served.lab.heal(served.name)
    incident = until("incident")
    assert (incident["class"], incident["action"]) == ("sigkill", "restart")
    wait_for(lambda: served.outcome(3), 30, "the engine was started anew")
    served.assert_whole(1)


def test_watch_goes_on_on_a_terminal_that_changes_its_width(served: ServiceHost) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 200))
    environment = {**served.environment, "TERM": "xterm"}
    client = subprocess.Popen(
        served.argv("watch"), env=environment, stdin=theirs, stdout=theirs, stderr=theirs, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    served.clients.append(client)
    shown = ""

    def drawn(longest: int) -> list[str]:
        nonlocal shown
        while select.select([ours], [], [], 0)[0]:
            shown += os.read(ours, 65536).decode()
        lines = [part.split("\r\n")[0] for part in shown.split("\r\x1b[K")[1:-1]]
        return [line for line in lines if line.startswith("release 1, budget 8") and len(line) <= longest]

    wait_for(lambda: drawn(199), 20, "the state is drawn")
    termios.tcsetwinsize(theirs, (24, 30))
    client.send_signal(signal.SIGWINCH)
    narrow = wait_for(lambda: drawn(29), 20, "the state is drawn anew, as wide as the terminal is now")
    assert narrow[-1] == drawn(199)[0][:29]
    client.send_signal(signal.SIGINT)
    assert client.wait(20) == 0
    os.close(ours)
    os.close(theirs)
