"""A host that is cut off: it goes on alone, and its client notices, goes on with it, or says how to look again."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from ddops import hosts
from ddops import site as sites
from ddops.errors import Unreachable
from ddops.remote import Agent

from .service_host import ServiceHost, wait_for

pytestmark = pytest.mark.lab

DEPLOY = 3  # the operation after the adoption and the first deploy


def socket_of(pid: int, port: int) -> socket.socket:
    """Returns another process's own TCP socket that is connected to a port (pidfd_getfd(2))."""
    process = os.pidfd_open(pid)
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        if not os.readlink(descriptor).startswith("socket:"):
            continue
        taken = ctypes.CDLL(None).syscall(438, process, int(descriptor.name), 0)
        found = socket.socket(fileno=taken)
        if found.family == socket.AF_INET and found.getpeername()[1] == port:
            return found
    raise AssertionError(f"process {pid} has no connection to port {port}")


def connections() -> str:
    """Returns this machine's established connections to any sshd."""
    listed = subprocess.run(["ss", "-tnH", "state", "established", "dport", "=", ":22"], capture_output=True, text=True)
    return listed.stdout


def test_a_host_that_falls_silent_is_noticed_in_a_call_that_does_not_stream(adopted: ServiceHost) -> None:
    entry = sites.load(Path(adopted.environment["DDOPS_SITE"])).hosts[adopted.name]
    agent, lost = Agent(hosts.connector(adopted.name, entry, lambda _: None)(), "lab"), []
    assert agent.ask("services") == ["lab"]

    def send_much() -> None:
        try:
            agent.ask("stage", payload=bytes(8 << 20), manifest="", files=1)
        except Unreachable as error:
            lost.append(error)

    adopted.on("systemctl", "kill", "-s", "STOP", "--kill-who=main", "sglang.service")
    client = adopted.start("status")  # it waits for an answer of the engine, half a minute at most
    wait_for(lambda: ":8000" in adopted.on("ss", "-tnH", "state", "established"), 20, "the agent asks the engine")
    with socket_of(client.pid, 22) as connection:
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    adopted.lab.blackhole(adopted.name)
    sender = threading.Thread(target=send_much, daemon=True)
    sender.start()
    code, document = adopted.finish(client, 15)
    assert code == 6
    assert "ddops status --host stub" in document["error"]["hint"]
    sender.join(15)
    assert lost, "a write to a host that is gone does not wait for it"


@pytest.mark.parametrize("phases", [("drain", "load", "lossless"), ("stop", "soak", "promote")])
def test_the_host_finishes_alone_in_whichever_phase_it_is_cut_off(served: ServiceHost, phases: tuple[str, ...]) -> None:
    clients = []
    for at, phase in enumerate(phases):
        operation = DEPLOY + at
        clients.append(served.start_deploy(9 + at))
        wait_for(lambda p=phase, o=operation: served.began(p, o), 30, phase)
        with socket_of(clients[-1].pid, 22) as connection:
            local = connection.getsockname()
        served.lab.cut(served.name)
        outcome = wait_for(lambda o=operation: served.outcome(o), 30, "the host ends the operation, cut off")
        assert outcome["outcome"] == "promoted", outcome["reason"]
        assert served.boots() == f"lab-{2 + at:04d}.service"
        if phase == phases[-1]:  # TCP outlives the others, which are short
            gone = f"{local[0]}:{local[1]}"
            wait_for(lambda g=gone: g not in connections(), 30, "the client notices and lets the connection go")
        served.lab.heal(served.name)
        wait_for(lambda: accepts(served.lab.address(served.name), 22), 30, "the link is up")
    for at, client in enumerate(clients):
        code, document = served.finish(client)
        assert (code, document["outcome"], document["operation"]) == (0, "promoted", DEPLOY + at)


def accepts(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


def test_a_client_that_gives_up_says_what_goes_on_and_how_to_look_again(served: ServiceHost) -> None:
    served.script(w13={"load_s": 2})
    client = served.start("deploy", "lab", "--budget", "12", "--soak", "1s", "--patience", "0s")
    wait_for(lambda: served.began("load", DEPLOY), 20, "the load")
    served.lab.cut(served.name)
    code, document = served.finish(client)
    assert code == 6
    told = document["error"]["what"]
    assert re.search("operation 3, last seen at (stop|switch|load); the host goes on alone", told), told
    command = document["error"]["hint"].partition(",")[0]
    assert command == "ddops status --host stub"

    assert served.ddops("status").code == 6
    wait_for(lambda: served.outcome(DEPLOY), 30, "the host ends the operation")
    served.lab.heal(served.name)
    ran = served.ddops("status")
    assert ran.code == 0
    assert [(o["operation"], o["outcome"]) for o in ran.document["last"]] == [(DEPLOY, "promoted")]
    assert ran.document["live"]["release"] == 2
