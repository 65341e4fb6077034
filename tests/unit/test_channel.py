"""The line between client and host: heartbeats, lines, and what a loss is called."""

from __future__ import annotations

import errno
import io
import json
import os
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddops import following
from ddops.agent import serve
from ddops.cli import app, target
from ddops.errors import DdopsError, Interrupted, Refused, Unreachable, UsageError
from ddops.hosts.lines import Lines
from ddops.remote import Agent


@given(st.lists(st.binary(min_size=1)), st.binary())
def test_a_stream_is_cut_into_the_same_lines_however_it_comes(pieces: list[bytes], end: bytes) -> None:
    whole = b"".join(pieces) + end
    rest = iter([*pieces, *([end] if end else [])])
    lines = Lines(lambda _: next(rest, b""))
    found = list(iter(lambda: lines.next(1.0), b""))
    assert found == list(io.BytesIO(whole))


def test_a_call_of_any_kind_has_heartbeats_until_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call ends when three have come: without heartbeats it never would."""
    three, written = threading.Event(), io.BytesIO()

    class Out(io.BytesIO):
        def write(self, data: Any) -> int:
            written.write(data)
            if written.getvalue().count(b"alive") >= 3:
                three.set()
            return len(data)

    def slow(args: dict[str, Any], payload: bytes) -> Iterator[dict[str, Any]]:
        yield {"event": "result", "result": three.wait(30)}

    monkeypatch.setitem(serve.CALLS, "slow", slow)
    serve.serve(io.BytesIO(b'{"call": "slow", "args": {}}\n'), Out(), heartbeat_s=0.01)
    events = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [e["event"] for e in events[:3]] == ["alive", "alive", "alive"]
    assert [e["result"] for e in events if e["event"] == "result"] == [True]


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "refused"), (errno.EROFS, "refused"), (errno.EIO, "internal")]
)
def test_a_call_that_finds_no_room_on_the_host_is_refused(
    number: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(args: dict[str, Any], payload: bytes) -> Iterator[dict[str, Any]]:
        raise OSError(number, os.strerror(number), "/var/lib/ddops/lab/live")

    monkeypatch.setitem(serve.CALLS, "full", full)
    out = io.BytesIO()
    serve.serve(io.BytesIO(b'{"call": "full", "args": {"service": "lab"}}\n'), out)
    error = json.loads(out.getvalue())["error"]
    assert error["code"] == code
    assert ("systemctl restart lab.service" in error.get("hint", "")) is (code == "refused")
    assert ("df -h; df -i" in error.get("hint", "")) is (number == errno.ENOSPC)


class Scripted:
    """An agent whose calls go as a test says: events, or an error at their end."""

    class host:
        name = "gpu-1"

    service = "lab"

    def __init__(self, *events: dict[str, Any] | Exception) -> None:
        self._events = events

    def events(self, call: str, **args: Any) -> Iterator[dict[str, Any]]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event

    def until(self, wanted: str, call: str, **args: Any) -> Any:
        events = self.events(call)
        return next(events), events

    def close(self) -> None:
        pass


def agent(*events: dict[str, Any] | Exception) -> Agent:
    return cast(Agent, Scripted(*events))


LOST = Unreachable("gpu-1 is silent", "nothing came for 5 s")


def test_a_key_that_changes_in_the_middle_is_a_lost_host_and_no_refusal() -> None:
    """Exit 5 would say that nothing was changed, while the operation goes on."""
    first = agent({"event": "step", "n": 0, "step": "load"}, LOST)
    again = agent(Refused("the host key of gpu-1 has changed", "other fingerprints"))
    with pytest.raises(Unreachable) as caught:
        following.follow(first, lambda: again, 7, lambda _: None)
    assert "operation 7, last seen at load; the host goes on alone" in caught.value.what
    assert "the host key of gpu-1 has changed" in caught.value.why
    assert caught.value.hint.startswith("ddops status --host gpu-1")


@pytest.mark.parametrize("error", [Refused("a noise line", "bash: warning"), UsageError("identity_file is not there")])
@pytest.mark.parametrize("when", ["in the answer", "when it is looked for again"])
def test_what_was_filed_goes_on_whatever_stands_in_the_way_to_it(error: DdopsError, when: str) -> None:
    """A key on a disk that is gone, a line of noise: 2 or 5 would say that nothing was begun."""
    filed: list[dict[str, Any] | Exception] = [error if when == "in the answer" else LOST]

    def again() -> Agent:
        raise error

    with pytest.raises(Unreachable) as caught:
        following.follow(agent(), again, 7, lambda _: None, events=agent(*filed).events("follow"))
    assert "operation 7" in caught.value.what
    assert "the host goes on alone" in caught.value.what
    assert error.what in caught.value.why


def test_a_refusal_on_a_line_that_was_never_lost_stays_one() -> None:
    with pytest.raises(Refused):
        following.follow(agent(Refused("operation 7 is not known on this host")), lambda: agent(), 7, lambda _: None)


def test_a_host_lost_while_a_request_is_filed_may_have_it() -> None:
    with pytest.raises(Unreachable) as caught:
        following.file(agent(LOST), "file")
    assert "while the operation was being filed; if it was, the host goes on alone" in caught.value.what
    assert caught.value.hint.startswith("ddops status --host gpu-1")


def test_ctrl_c_right_after_an_operation_was_filed_does_not_say_that_nothing_was_changed() -> None:
    """There the command line's own last word would: 'nothing was changed at a host'."""

    def report(_: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        following.carry_out(
            agent({"event": "filed", "operation": 7}), lambda: agent(), report, following.PATIENCE_S, "file"
        )
    assert "gpu-1 carries it out alone" in caught.value.why
    assert caught.value.hint == "ddops status --host gpu-1"


@pytest.mark.parametrize("verb", ["pause", "resume", "confirm"])
def test_ctrl_c_while_a_host_is_asked_to_change_something_says_that_it_may_have(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Asked(Agent):
        def ask(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

    asked = Asked(cast(Any, Scripted.host), "lab")
    monkeypatch.setattr(target, "existing", lambda *_: (asked, None))
    assert app.run([verb, "--json"]) == int(Interrupted.exit_code)
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["why"], error["hint"]) == ("it may have done so", "ddops status --host gpu-1")
