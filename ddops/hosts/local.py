"""This machine as a host, with no SSH between."""

from __future__ import annotations

import getpass
import os
import select
import subprocess
import tempfile

from ..errors import Refused, Unreachable
from .lines import Lines


class LocalChannel:
    def __init__(self, words: list[str]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the channel
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, start_new_session=True
            )
        except FileNotFoundError:
            raise Refused(
                f"{words[0]} is not on this machine", "ddops needs root", "the same command as root"
            ) from None
        self._lines = Lines(self._read)

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - PIPE above
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Unreachable("the agent on this machine ended", self.errors()) from None

    def line(self, timeout: float) -> bytes:
        return self._lines.next(timeout)

    def _read(self, timeout: float) -> bytes:
        assert self._process.stdout is not None  # noqa: S101 - PIPE above
        descriptor = self._process.stdout.fileno()
        if not select.select([descriptor], [], [], timeout)[0]:
            raise Unreachable("the agent on this machine is silent", f"nothing came for {timeout:g} s")
        return os.read(descriptor, 1 << 16)

    def errors(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace").strip()

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        self._process.wait(timeout=10)
        self._stderr.close()


class LocalHost:
    def __init__(self) -> None:
        self.name = "local"
        self.user = getpass.getuser()
        self.as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]

    def connect(self) -> None:
        pass

    def open(self, words: list[str]) -> LocalChannel:
        return LocalChannel(words)

    def close(self) -> None:
        pass
