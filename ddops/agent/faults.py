"""What a line of the engine's journal says of a fault.

One rule so far: the illegal memory access in the spellings that CUDA, torch, Triton, NCCL, NVIDIA's
sample macros and the driver give it. A hint line that follows every CUDA error, or a name in a
command line (``CUDA_LAUNCH_BLOCKING``), is not a fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .journal import Entry


@dataclass(frozen=True)
class Rule:
    """A fault and what it looks like."""

    name: str
    pattern: re.Pattern[str]
    why: str


RULES = (
    Rule(
        "illegal-memory-access",
        re.compile(
            r"an illegal memory access was encountered"
            r"|\bcudaErrorIllegalAddress\b(?!')"
            r"|\bCUDA_ERROR_ILLEGAL_ADDRESS\b"
            r"|Failed to encode tensor map: 700\b"
            r"|\bcode=700\b"
            r"|CUDA error: 700\b"
            r"|Starting GPU coredump generation",  # with CUDA_ENABLE_COREDUMP_ON_EXCEPTION its first sign
            re.IGNORECASE,
        ),
        "a kernel read or wrote outside its buffers; the CUDA context of the process is lost",
    ),
)

# SGLang prints a request, prompt included, when request logging is on: a user's words are no fault
_QUOTES_A_USER = re.compile(r"\b(?:Receive|Finish): obj=|\bprompt(?:_token_ids)?['\"]?[:=]|\binput_text['\"]?[:=]")


@dataclass(frozen=True)
class Fault:
    """A fault, the line that shows it, and when that line was written (microseconds, host's clock)."""

    rule: str
    why: str
    line: str
    pid: int
    time_us: int
    cursor: str

    def record(self) -> dict[str, Any]:
        """Returns the fault as outcomes hold it."""
        return dict(vars(self))


def classify(entry: Entry) -> Fault | None:
    """Returns the fault that one entry shows, None for every other line."""
    if _QUOTES_A_USER.search(entry.message):
        return None
    for rule in RULES:
        if found := rule.pattern.search(entry.message):
            around = slice(max(0, found.start() - 400), found.end() + 400)
            return Fault(rule.name, rule.why, entry.message[around], entry.pid, entry.time_us, entry.cursor)
    return None
