"""The agent at the other end of one channel: it is sent along, then asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from . import errors, resources
from .errors import DdopsError, Unreachable
from .hosts.base import Channel, Host

# says whether the host has this agent, receives it where not, and becomes it; os.read takes not a byte too many.
# Unpacked, so that Python keeps what it compiles: from the archive it compiles all of it at each start.
_BOOT = """
import os,sys
h,n=sys.argv[1],int(sys.argv[2]);p="/run/ddops-agents/"+h
if os.path.exists(p):os.write(1,b'{"event":"have"}\\n')
else:
 import hashlib,io,shutil,zipfile
 os.write(1,b'{"event":"want"}\\n');b=b""
 while len(b)<n:
  c=os.read(0,n-len(b))
  if not c:sys.exit("the agent did not arrive whole")
  b+=c
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

ANSWER_S = 60.0
SILENCE_S = 5.0  # a call that streams sends something every second


class Agent:
    """Calls of one service's agent on one host, over one channel."""

    def __init__(self, host: Host, service: str) -> None:
        self.host, self.service = host, service
        self._channel: Channel | None = None

    def ask(self, call: str, payload: bytes = b"", timeout: float = ANSWER_S, **args: Any) -> Any:
        """Makes a call and returns its result; raises what the host says, or Unreachable."""
        for event in self.events(call, payload, timeout, **args):
            if event["event"] == "result":
                return event["result"]
        raise Unreachable(f"{self.host.name}: the agent ended without an answer to {call}")

    def events(
        self, call: str, payload: bytes = b"", timeout: float = SILENCE_S, **args: Any
    ) -> Iterator[dict[str, Any]]:
        """Makes a call and yields its events up to its result."""
        channel = self._open()
        request = {"call": call, "args": {"service": self.service, **args}, "bytes": len(payload)}
        channel.send(json.dumps(request).encode() + b"\n" + payload)
        while line := channel.line(timeout):
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "error":
                self._channel = None
                raise errors.from_agent(event["error"])
            yield event
            if event["event"] == "result":
                return
        said = channel.errors()
        self._channel = None
        if "sudo:" in said:
            raise DdopsError(
                f"{self.host.name}: no root without a password", said, "a sudoers rule with NOPASSWD, or user: root"
            )
        raise Unreachable(f"{self.host.name}: the agent ended", said or "no reason was given")

    def _open(self) -> Channel:
        if self._channel is None:
            agent = resources.agent()
            words = ["/usr/bin/python3", "-IS", "-c", _BOOT, hashlib.sha256(agent).hexdigest(), str(len(agent))]
            channel = self.host.open([*self.host.as_root, *words])
            if json.loads(channel.line(ANSWER_S) or b"{}").get("event") == "want":
                channel.send(agent)  # 60 KB: some round trips while TCP opens its window
            self._channel = channel
        return self._channel

    def close(self) -> None:
        """Ends the channel and the connection."""
        if self._channel:
            self._channel.close()
            self._channel = None
        self.host.close()


Connect = Callable[[], Agent]
