"""Bugs planted one by one in a server with graphs (tests/overlay/planted/planted_hazard.py): which rule names each.

python hazards.py MODEL DRAFTER OUT BUDGET [ARGUMENT ...]      exits 1 where one is missed
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from pathlib import Path

from ask import QUESTIONS, generate
from planted_hazard import EXPECTED
from servers import Servers
from transformers import AutoTokenizer

TOKENS = 64


def say(*what: object) -> None:
    print(*what, flush=True)  # noqa: T201


def main() -> int:
    model, drafter, out, budget, *arguments = sys.argv[1:]
    folder = Path(out)
    servers = Servers(folder, ["--model-path", model, *arguments])
    texts = folder / "texts.json"
    servers.start("plain")
    for hazard in EXPECTED:
        servers.start(
            hazard,
            "--speculative-draft-model-path",
            drafter,
            ddtree={"budget": int(budget), "audit": True},
            plugins="ddops-overlay,planted-drafter,planted-hazard",
            PLANTED_TEXTS=str(texts),
            PLANTED_HAZARD=hazard,
        )
    missed = 0
    try:
        if not servers.wait("plain", 240):
            return 1
        prompts = [AutoTokenizer.from_pretrained(model).encode(question) for question in QUESTIONS[:4]]
        plain = [generate(servers.ports["plain"], p, TOKENS + 16)["output_ids"] for p in prompts]
        texts.write_text(json.dumps([p + a for p, a in zip(prompts, plain, strict=True)]))
        for hazard, expected in EXPECTED.items():
            answers = []
            if servers.wait(hazard, 60, quiet=True):
                with contextlib.suppress(OSError, ValueError):
                    answers = [generate(servers.ports[hazard], p, TOKENS)["output_ids"] for p in prompts]
            log = (folder / f"{hazard}.log").read_text(errors="replace")
            rules = list(dict.fromkeys(re.findall(r"ddtree rule (\S+) is broken", log)))
            named = bool(rules) and rules[0] in expected
            missed += not named
            say(
                f"{hazard}: {'named' if named else 'MISSED'} by",
                rules[:2],
                "" if rules else f"({len(answers)} answers)",
            )
    finally:
        servers.stop()
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
