"""Lines that journald cut: at LineMax (48 KiB unless set), in the middle of a word and of a character."""

from __future__ import annotations

from dataclasses import dataclass, field

from .quoted import quotes

_TAIL = 512  # bytes of a cut line that are carried on: a fault text can lie across the cut
_HEAD = 4096  # bytes that tell whether the line holds a user's words
_STREAMS = 4096  # streams whose cut lines are remembered


@dataclass
class Streams:
    """The ends of cut lines, by the stream that they came on."""

    cut: dict[bytes, bytes] = field(default_factory=dict)
    quoting: set[bytes] = field(default_factory=set)

    def join(self, stream: bytes, message: bytes, line_break: bytes) -> bytes:
        """Puts the end of a line that journald cut before its next part.

        The part of a line that began to quote a user goes on quoting: it is marked as such.
        """
        if line_break != b"line-max" and stream not in self.cut:
            return message
        quoted = stream in self.quoting
        whole = self.cut.pop(stream, b"") + message
        if line_break == b"line-max":
            if len(self.cut) > _STREAMS:
                self.cut.clear()
                self.quoting.clear()
            self.cut[stream] = whole[-_TAIL:]
            if quotes(message[:_HEAD].decode(errors="replace")):
                self.quoting.add(stream)
        else:
            self.quoting.discard(stream)
        return b"Receive: obj=" + whole if quoted else whole
