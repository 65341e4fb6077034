"""Sampling at temperature 1: a tree's samples must come from plain decoding's distribution.

    python sampling.py MODEL DRAFTER OUT BUDGET SAMPLES [ARGUMENT ...]      ARGUMENTs go to every server

For each of the first tokens of an answer it prints the total variation distance of the tree's samples from plain
decoding's, and how often a random split of all of them is as far apart (a permutation test). Then, with seeds and
SGLang's deterministic mode, how many answers of the tree are plain decoding's token by token.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ask import QUESTIONS, first_difference, generate
from servers import Servers

TOKENS, PLACES, SPLITS, TOGETHER = 64, 6, 400, 16


def say(*what: object) -> None:
    print(*what, flush=True)  # noqa: T201


def main() -> None:
    model, drafter, out, budget, samples, *arguments = sys.argv[1:]
    servers = Servers(Path(out), ["--model-path", model, *arguments])
    tree = ["--speculative-draft-model-path", drafter]
    for suffix, more in (("", []), ("-seeded", ["--enable-deterministic-inference"])):
        servers.start(f"plain{suffix}", *more)
        servers.start(f"tree{suffix}", *tree, *more, ddtree={"budget": int(budget)})
    try:
        if servers.wait("plain", 150) and servers.wait("tree", 150):
            distributions(servers, int(samples))
        if servers.wait("plain-seeded", 60) and servers.wait("tree-seeded", 60):
            seeds(servers)
    finally:
        servers.stop()


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


def seeds(servers: Servers) -> None:
    same, places = 0, []
    for seed in (1, 2, 3):
        for question in QUESTIONS:
            params = {"temperature": 1.0, "top_p": 0.95, "sampling_seed": seed}
            plain, tree = (
                generate(servers.ports[name], question, TOKENS, **params) for name in ("plain-seeded", "tree-seeded")
            )
            place = first_difference(plain["output_ids"], tree["output_ids"])
            same += place is None
            places += [] if place is None else [place]
    say(f"seeded: {same} of {3 * len(QUESTIONS)} answers of the tree are plain decoding's; first differences {places}")


if __name__ == "__main__":
    main()
