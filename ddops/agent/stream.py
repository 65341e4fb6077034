"""One request as its sender saw it: plain values that the arithmetic of a bench works on."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Part:
    """A part of a streamed answer: when it came, in seconds, and the tokens generated up to it."""

    at: float
    tokens: int


@dataclass(frozen=True)
class Stream:
    """A request from its beginning to its end.

    ``began`` is when it was sent or, in an open loop, when it was due: a client that lags must not flatter the
    service. ``steps`` are the verify steps that SGLang counts, None where it does not speculate. A request that
    failed has an ``error`` and keeps the parts that came.
    """

    began: float
    ended: float
    parts: tuple[Part, ...] = field(default=())
    prompt_tokens: int = 0
    steps: int | None = None
    error: str = ""

    @property
    def good(self) -> bool:
        return not self.error

    @property
    def tokens(self) -> int:
        return self.parts[-1].tokens if self.parts else 0

    @property
    def ttft(self) -> float:
        """Seconds to the first token; only for a stream that has parts."""
        return self.parts[0].at - self.began

    @property
    def latency(self) -> float:
        return self.ended - self.began

    @property
    def tpot(self) -> float | None:
        """Mean seconds a token after the first part; None where all came at once."""
        first, last = self.parts[0], self.parts[-1]
        more = last.tokens - first.tokens
        return (last.at - first.at) / more if more else None
