"""The agent at the other end of one channel: it is sent along, then asked."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from . import errors, resources
from .errors import DdopsError, Interrupted, Refused, Unreachable
from .hosts.base import Channel, Host
from .hosts.beginning import Beginning

# says whether the host has this agent, receives it where not, and becomes it; os.read takes not a byte too many.
# A request has come along by then: where the agent is wanted it is dropped, up to the mark, and comes again.
# Unpacked, so that Python keeps what it compiles: from the archive it compiles all of it at each start.
_BOOT = """
import os,sys
h,n=sys.argv[1],int(sys.argv[2]);p="/run/ddops-agents/"+h
def r(k):
 b=b""
 while len(b)<k:
  c=os.read(0,k-len(b))
  if not c:sys.exit("the agent did not arrive whole")
  b+=c
 return b
if os.path.exists(p):os.write(1,b'{"event":"have"}\\n')
else:
 import hashlib,io,shutil,zipfile,zlib
 os.write(1,b'{"event":"want"}\\n');b=bytearray();m=h.encode()+b"\\n"
 while not b.endswith(m):b+=r(1)
 b=r(int(r(8)))
 try:b=zlib.decompressobj().decompress(b,n)
 except zlib.error:pass
 if hashlib.sha256(b).hexdigest()!=h:sys.exit("the agent arrived damaged")
 t=p+"."+str(os.getpid());os.makedirs(t,0o700)
 os.chmod(os.path.dirname(p),0o700)
 zipfile.ZipFile(io.BytesIO(b)).extractall(t)
 open(t+"/agent.pyz","wb").write(b)
 try:os.rename(t,p)
 except OSError:shutil.rmtree(t)
sys.argv=[p,"serve"];sys.path.insert(0,p)
from agent.__main__ import main
sys.exit(main(["serve"]))
"""

PYTHON = "/usr/bin/python3"
# one word without a line's end or a comma: a sudoers rule can hold it as it is
_ONE_WORD = f"import binascii;exec(binascii.a2b_base64('{base64.b64encode(_BOOT.encode()).decode()}'))"
ANSWER_S = 60.0
SILENCE_S = 5.0  # the agent sends something every second, whatever it is about
START_S = 20.0  # before it does there are sudo and PAM, which may ask a directory


def command(agent: bytes) -> list[str]:
    """Returns the command that becomes this agent on a host."""
    return [PYTHON, "-IS", "-c", _ONE_WORD, hashlib.sha256(agent).hexdigest(), str(len(agent))]


def _parcel(agent: bytes) -> bytes:
    """Returns what is sent to a host that lacks this agent: the mark, the length of what follows, the agent."""
    packed = zlib.compress(agent)
    return f"{hashlib.sha256(agent).hexdigest()}\n{len(packed):08}".encode() + packed


class Agent:
    """Calls of one service's agent on one host, over one channel."""

    def __init__(self, host: Host, service: str) -> None:
        self.host, self.service = host, service
        self._channel: Channel | None = None
        self._beginning: Beginning[Channel] | None = None

    def begin(self) -> None:
        """Begins to connect while the caller does something else; what goes wrong is raised by the first call."""
        if self._channel is None and self._beginning is None:
            self._beginning = Beginning(self._start)

    def ask(self, call: str, payload: bytes = b"", timeout: float = ANSWER_S, **args: Any) -> Any:
        """Makes a call and returns its result; raises what the host says, or Unreachable after ``timeout`` s."""
        return self.until("result", call, payload, timeout, **args)[0]["result"]

    def change(self, call: str, **args: Any) -> Any:
        """Asks for what changes something there; interrupted, it says that this may have happened."""
        try:
            return self.ask(call, **args)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted while {self.host.name} was asked to {call}",
                "it may have done so",
                f"ddops status --host {self.host.name}",
            ) from None

    def until(
        self, wanted: str, call: str, payload: bytes = b"", timeout: float = ANSWER_S, **args: Any
    ) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        """Makes a call and returns the first event that is ``wanted``, and those after it; raises as ``ask``."""
        end = time.monotonic() + timeout
        events = self.events(call, payload, **args)
        for event in events:
            if event["event"] == wanted:
                return event, events
            if time.monotonic() > end:
                break
        self._drop()
        raise self._lost(f"{self.host.name} did not answer '{call}'", f"its agent was at it for {timeout:g} s")

    def events(self, call: str, payload: bytes = b"", **args: Any) -> Iterator[dict[str, Any]]:
        """Makes a call and yields its events up to its result."""
        request = {"call": call, "args": {"service": self.service, **args}, "bytes": len(payload)}
        try:
            channel, silence = self._send(json.dumps(request).encode() + b"\n" + payload)
            while line := channel.line(silence):
                event, silence = self._parse(line), SILENCE_S
                if event["event"] == "error":
                    self._drop()
                    raise errors.from_agent(event["error"])
                yield event
                if event["event"] == "result":
                    return
        except Unreachable as error:
            self._drop()
            raise error if error.hint else self._lost(error.what, error.why) from None
        raise self._ended(channel)

    def _ended(self, channel: Channel) -> DdopsError:
        """Returns why the agent ended, or never began."""
        said = channel.errors()
        self._drop()
        if self.host.as_root and ("sudo" in said or "not allowed to" in said):
            return Refused(
                f"{self.host.name}: {self.host.user} may not run this ddops' agent as root without a password",
                said,
                f"ddops sudoers {self.host.user} prints what belongs in /etc/sudoers.d/ddops there; or user: root in "
                "the site file",
            )
        return self._lost(f"{self.host.name}: the agent ended", said or "no reason was given")

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            self._drop()
            raise Refused(
                f"{self.host.name} says something that is not the agent's",
                line[:200].decode(errors="replace").strip(),
                f"what {self.host.user}'s shell runs at its start must print nothing without a terminal, and it "
                f"must be one: getent passwd {self.host.user}",
            ) from None
        return event

    def _lost(self, what: str, why: str) -> Unreachable:
        return Unreachable(what, why, f"ddops status --host {self.host.name}, when it can be reached again")

    def _drop(self) -> None:
        self._channel = None

    def _send(self, request: bytes) -> tuple[Channel, float]:
        """Sends a request; returns the channel, and how long it may be silent before its first line."""
        if self._channel is not None:
            self._channel.send(request)
            return self._channel, SILENCE_S
        beginning, self._beginning = self._beginning, None
        channel = beginning.result() if beginning else self._start()
        with contextlib.suppress(Unreachable):  # where the command has ended already, its last words are to be read
            channel.send(request)
        first = channel.line(START_S)
        if not first:
            raise self._ended(channel)
        if self._parse(first)["event"] == "want":
            channel.send(_parcel(resources.agent()) + request)  # some round trips while TCP opens its window
        self._channel = channel
        return channel, START_S

    def _start(self) -> Channel:
        """Connects and starts the agent."""
        self.host.connect()  # the host makes the session while the agent is packed here
        return self.host.open([*self.host.as_root, *command(resources.agent())])

    def close(self) -> None:
        """Ends the channel and the connection."""
        if self._channel:
            self._channel.close()
            self._channel = None
        self._beginning = None
        self.host.close()


Connect = Callable[[], Agent]
