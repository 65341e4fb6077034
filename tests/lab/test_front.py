"""The front under users: who knocks is refused or answered right, whatever happens behind it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest

from .knocking import Knocking
from .service_host import PUBLIC, ServiceHost, wait_for
from .test_deploy import own_profile

pytestmark = pytest.mark.lab

DEPLOY = 3  # the operation after the adoption and the first deploy
FAIR = {"right", "refused", "reset", "loading"}


def knocking(served: ServiceHost) -> Knocking:
    return Knocking(served.lab.address(served.name), PUBLIC)


def test_users_of_a_failing_deploy_are_refused_or_answered_right(served: ServiceHost) -> None:
    """One trial dies in its gates and one in the soak, with users on it."""
    with knocking(served) as users:
        for budget, script in ((12, {"fault_after": 20}), (13, {"fault_after": 200})):
            served.script(**{f"w{budget + 1}": script}, w9={"load_s": 1})
            ran = served.ddops("deploy", "lab", "--budget", str(budget), "--soak", "60s")
            assert ran.code == 3, ran
            assert [f["rule"] for f in ran.document["faults"]] == ["illegal-memory-access"]
            back = time.monotonic()
            wait_for(lambda back=back: users.right_after(back), 10, "users are answered again")
        assert [s["step"] for s in ran.document["steps"] if not s["ok"]] == ["soak"]
    assert set(users.got) <= FAIR, users.got
    assert users.got["right"] > 100, users.got
    assert users.got["refused"] > 100, users.got
    # between the accept and the close of the proxy, and those whom the fault cut off
    assert users.got["reset"] < 50, users.got


def test_streams_end_in_the_drain_up_to_its_bound(served: ServiceHost, tmp_path: Path) -> None:
    streams = [Stream(served, letter_s=0.5) for _ in range(3)]
    wait_for(lambda: all(s.begun() for s in streams), 10, "the streams have begun")
    ran = served.deploy(12)
    assert ran.code == 0, ran
    assert [s.end() for s in streams] == ["Paris"] * 3, "an open stream was cut"

    served.profile = own_profile(tmp_path, drain=1)
    slow = Stream(served, letter_s=60)
    wait_for(slow.begun, 10, "the stream has begun")
    assert served.deploy(13).code == 0
    assert slow.end() == "P (cut)"
    drain = next(e for e in served.steps(DEPLOY + 1) if e["event"] == "step-done" and e["step"] == "drain")
    assert (drain["graceful"], drain["streams_cut"]) == (True, 1)
    served.assert_whole(3)


def test_300_users_at_once(served: ServiceHost, tmp_path: Path) -> None:
    streams = [Stream(served, letter_s=0.5) for _ in range(300)]
    assert {s.end() for s in streams} == {"Paris"}

    served.profile = own_profile(tmp_path, drain=1)
    idle = [socket.create_connection((served.lab.address(served.name), PUBLIC), timeout=10) for _ in range(300)]
    assert served.deploy(12).code == 0
    assert {s.recv(1) for s in idle} == {b""}, "idle connections were not closed"
    served.assert_whole(2)


def test_a_front_that_cannot_start_is_told_and_mended_by_a_rollback(served: ServiceHost) -> None:
    """Somebody takes the public port while the front is closed: neither release can be reached."""
    served.script(w13={"load_s": 2})
    client = served.start_deploy(12)
    wait_for(lambda: served.began("load", DEPLOY), 20, "the front is closed")
    listen = "import socket, time; s = socket.create_server(('', 8000)); time.sleep(600)"
    served.on("systemd-run", "--unit=thief", "python3", "-c", listen)

    code, document = served.finish(client)
    assert (code, document["outcome"]) == (4, "rollback-failed"), document
    pid = served.main_pid("thief.service")
    assert f"pid {pid} " in document["rollback"]["why"], document["rollback"]
    assert served.active("lab-0001.service") == "active", "known-good itself was brought back"
    assert served.active("lab-0002.service") == "inactive"
    assert served.boots() == "lab-0001.service"
    assert served.ddops("status").code == 9

    served.on("systemctl", "stop", "thief.service")
    kept = served.main_pid("lab-0001.service")
    assert served.ddops("rollback").code == 0
    assert served.main_pid("lab-0001.service") == kept, "nothing but the front had to be started"
    served.assert_whole(1)


def test_known_good_boots_while_users_knock(served: ServiceHost) -> None:
    served.script(w9={"load_s": 2})
    served.lab.crash(served.name)
    served.lab.start(served.name)
    with knocking(served) as users:
        wait_for(lambda: users.got["right"] > 20, 30, "users are answered after the boot")
    assert set(users.got) <= FAIR, users.got
    served.assert_whole(1)


class Stream:
    """A streamed answer under way, its first letter received."""

    def __init__(self, served: ServiceHost, letter_s: float) -> None:
        self.text = ""
        self._url = f"{served.url}/v1/chat/completions"
        self._ask = f"The capital of France, a letter every {letter_s} s?"
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> str:
        """Returns the answer; " (cut)" is added where it was not whole."""
        self._thread.join(100)
        assert not self._thread.is_alive(), "the stream hangs"
        return self.text

    def begun(self) -> bool:
        return self._begun.is_set()

    def _run(self) -> None:
        body = {"messages": [{"role": "user", "content": self._ask}], "stream": True}
        with contextlib.suppress(httpx.HTTPError), httpx.stream("POST", self._url, json=body, timeout=100) as answer:
            for line in answer.iter_lines():
                if line == "data: [DONE]":
                    return
                if line.startswith("data: {"):
                    self.text += json.loads(line[6:])["choices"][0]["delta"]["content"]
                    self._begun.set()
        self.text += " (cut)"
