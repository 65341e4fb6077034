"""Sampling at temperature 1: a tree's samples must come from plain decoding's distribution.

    python sampling.py MODEL DRAFTER OUT BUDGET SAMPLES [ARGUMENT ...]      ARGUMENTs go to every server

For each of the first tokens of an answer it prints the total variation distance of the tree's samples from plain
decoding's, and how often a random split of all of them is as far apart (a permutation test).
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ask import QUESTIONS, generate
from servers import Servers

PLACES, SPLITS, TOGETHER = 6, 400, 16


def say(*what: object) -> None:
    print(*what, flush=True)  # noqa: T201


def main() -> int:
    model, drafter, out, budget, samples, *arguments = sys.argv[1:]
    servers = Servers(Path(out), ["--model-path", model, *arguments])
    servers.start("plain")
    servers.start("tree", "--speculative-draft-model-path", drafter, ddtree={"budget": int(budget)})
    try:
        if not (servers.wait("plain", 150) and servers.wait("tree", 150)):
            return 1
        distributions(servers, int(samples))
    finally:
        servers.stop()
    return 0


def distributions(servers: Servers, samples: int) -> None:
    def ask(name: str) -> list[list[int]]:
        def one(_: int) -> list[int]:
            answer = generate(servers.ports[name], QUESTIONS[1], PLACES, temperature=1.0, top_p=0.95)
            return list(answer["output_ids"])

        with ThreadPoolExecutor(TOGETHER) as pool:
            return list(pool.map(one, range(samples)))

    plain, tree = ask("plain"), ask("tree")
    draw = random.Random(0)  # noqa: S311 - a measurement must repeat itself
    for place in range(1, PLACES):
        a, b = [answer[place] for answer in plain], [answer[place] for answer in tree]
        found, pooled, farther = distance(a, b), [*a, *b], 0
        for _ in range(SPLITS):
            draw.shuffle(pooled)
            farther += distance(pooled[:samples], pooled[samples:]) >= found
        p = (farther + 1) / (SPLITS + 1)
        say(f"token {place + 1}: {len(set(pooled))} different, distance {found:.4f}, p {p:.3f}")


def distance(a: Sequence[int], b: Sequence[int]) -> float:
    """Total variation of two samples of equal size."""
    counts = Counter(a)
    counts.subtract(Counter(b))
    return sum(abs(count) for count in counts.values()) / (2 * len(a))


if __name__ == "__main__":
    sys.exit(main())
