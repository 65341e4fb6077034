"""A DDTREE server with graphs under compute-sanitizer's memcheck.

    python sanitize.py MODEL DRAFTER OUT BUDGET SECONDS

Counts the invalid accesses in the log: a server that is ended by a signal leaves no summary. Exits 1 for any, and for a
server that does not answer.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ask import QUESTIONS, together
from servers import Servers


def main() -> int:
    model, drafter, out, budget, seconds = sys.argv[1:]
    folder = Path(out)
    servers = Servers(folder, ["--model-path", model, "--disable-prefill-cuda-graph"])
    wrap = ("compute-sanitizer", "--tool", "memcheck", "--target-processes", "all", "--print-limit", "20")
    started = time.monotonic()
    try:
        servers.start(
            "memcheck",
            "--speculative-draft-model-path",
            drafter,
            ddtree={"budget": int(budget)},
            wrap=wrap,
        )
        ready = servers.wait("memcheck", float(seconds))
        found = together(servers.ports["memcheck"], QUESTIONS[:3], 24) if ready else []
        tokens = [len(answer.get("output_ids", [])) for answer in found]
        log = (folder / "memcheck.log").read_text(errors="replace")
        invalid = sum("Invalid" in line for line in log.splitlines() if line.startswith("====="))
        what = f"budget {budget}: ready {ready}, {time.monotonic() - started:.0f} s, answers {tokens}"
        print(what, "invalid accesses:", invalid, flush=True)  # noqa: T201
    finally:
        servers.stop()
    return int(bool(invalid) or tokens != [24] * 3)


if __name__ == "__main__":
    sys.exit(main())
