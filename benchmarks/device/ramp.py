"""DDTREE under load that rises and falls, audited: greedy and sampled requests of all lengths, some broken off.

    python ramp.py MODEL DRAFTER OUT SECONDS BUDGET [ARGUMENT ...]

A first server answers plainly; what the drafter proposes is its text, so paths of all lengths are accepted. Ends with
the number of answers, errors, batches seen, and any rule that was broken; exits 1 for a rule or an error.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from ask import QUESTIONS, generate
from servers import Servers
from transformers import AutoTokenizer

LEVELS = (1, 3, 8, 16, 24, 12, 5, 2)


def say(*what: object) -> None:
    print(*what, flush=True)  # noqa: T201


def main() -> int:
    model, drafter, out, seconds, budget, *arguments = sys.argv[1:]
    folder = Path(out)
    servers = Servers(folder, ["--model-path", model, *arguments])
    texts = folder / "texts.json"
    try:
        servers.start("plain")
        servers.start(
            "tree",
            "--speculative-draft-model-path",
            drafter,
            ddtree={"budget": int(budget), "audit": True},
            plugins="ddops-overlay,planted-drafter",
            PLANTED_TEXTS=str(texts),
        )
        if not (servers.wait("plain", 150) and servers.wait("tree", 150)):
            return 1
        prompts = [AutoTokenizer.from_pretrained(model).encode(question) for question in QUESTIONS]
        plain = [generate(servers.ports["plain"], p, 200)["output_ids"] for p in prompts]
        texts.write_text(json.dumps([p + a for p, a in zip(prompts, plain, strict=True)]))
        counts = load(servers.ports["tree"], prompts, float(seconds))
        log = (folder / "tree.log").read_text(errors="replace")
        lines = re.findall(r"Decode batch[^\n]*#running-req: (\d+)[^\n]*cuda graph: (\w+)", log)
        found = Counter((int(batch), graph) for batch, graph in lines)
        say("decode lines by batch and graph:", ", ".join(f"{b} {g} {n}" for (b, g), n in sorted(found.items())))
        broken = sorted(set(re.findall(r"ddtree rule \S+ is broken[^\n]*", log)))
        say("rules broken:", broken)
    finally:
        servers.stop()
    return int(bool(broken) or +counts != Counter({"right length": counts["right length"], "healthy after all": 1}))


def load(port: int, prompts: list[list[int]], seconds: float) -> Counter[str]:
    end, counts = time.monotonic() + seconds, Counter[str]()

    def client(number: int, until: float) -> None:
        draw = random.Random(number)  # noqa: S311 - the same load each time
        while time.monotonic() < until:
            prompt, tokens = draw.choice(prompts), draw.choice((1, 2, 7, 30, 120, 190))
            hot = {"temperature": 1.0, "top_p": draw.choice((0.8, 1.0))} if draw.random() < 0.3 else {}
            try:
                answer = generate(port, prompt, tokens, ignore_eos=draw.random() < 0.5, **hot)
                produced = len(answer["output_ids"])
                counts["too long" if produced > tokens or not produced else "right length"] += 1
            except (OSError, ValueError) as error:
                counts[f"error {type(error).__name__}"] += 1

    while time.monotonic() < end:
        for level in LEVELS:
            until = min(end, time.monotonic() + seconds / len(LEVELS))
            threads = [threading.Thread(target=client, args=(i, until)) for i in range(level)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    with contextlib.suppress(OSError):
        counts["healthy after all"] = int(bool(generate(port, prompts[0], 8)["output_ids"]))
    say(f"{seconds:.0f} s of load:", dict(counts))
    return counts


if __name__ == "__main__":
    sys.exit(main())
