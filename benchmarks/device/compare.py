"""DDTREE against plain decoding and against itself without graphs, by budget and by batch.

    python compare.py MODEL DRAFTER OUT BUDGETS [ARGUMENT ...]      BUDGETS: 8,12,16; ARGUMENTs go to every server

The drafter's trees are planted (tests/overlay/planted): paths of every length through every sibling are accepted.
Every step is audited. Prints, for each budget and batch, accepted tokens a step, and every place where the answer
differs from plain decoding with the gap in nats that plain decoding sees between the two tokens there. Exits 1 where a
server does not start, or a gap is wider than GAP.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ask import QUESTIONS, first_difference, gap, generate, together
from servers import Servers
from transformers import AutoTokenizer

TOKENS = 96
BATCHES = (1, 2, 3, 5, 8)
# nats: two steps of bf16 logits as large as a model's are
GAP = 0.3


def say(*what: object) -> None:
    print(*what, flush=True)  # noqa: T201


def main() -> int:
    model, drafter, out, budgets, *arguments = sys.argv[1:]
    folder = Path(out)
    servers = Servers(folder, ["--model-path", model, *arguments])
    try:
        whole = compare(servers, folder, model, drafter, [int(budget) for budget in budgets.split(",")])
    finally:
        servers.stop()
    return 0 if whole else 1


def compare(servers: Servers, folder: Path, model: str, drafter: str, budgets: list[int]) -> bool:
    """Says whether all servers started and no gap is too wide."""
    texts = folder / "texts.json"
    names = ["plain"]
    servers.start("plain")
    for budget in budgets:
        for graphs in (True, False):
            name = f"b{budget}{'' if graphs else '-eager'}"
            servers.start(
                name,
                "--speculative-draft-model-path",
                drafter,
                graphs=graphs,
                ddtree={"budget": budget, "audit": True},
                plugins="ddops-overlay,planted-drafter",
                PLANTED_TEXTS=str(texts),
                PLANTED_BATCHES=",".join(map(str, BATCHES)),
            )
            names.append(name)
    up = {name for name in names if servers.wait(name, 240)}
    if "plain" not in up:
        return False
    prompts = [AutoTokenizer.from_pretrained(model).encode(question) for question in QUESTIONS]
    plain = [generate(servers.ports["plain"], p, TOKENS + 16)["output_ids"] for p in prompts]
    texts.write_text(json.dumps([p + a for p, a in zip(prompts, plain, strict=True)]))

    widest = 0.0
    for name in names[1:]:
        if name not in up:
            continue
        audit = [line["ddtree"] for line in servers.lines(name, "ddops_overlay") if "ddtree" in line]
        say(name, "audit at start-up:", audit[-1]["batches"], "graphs", audit[-1]["graphs"])
        answers: list[list[int]] = []
        for bs in BATCHES:
            found = together(servers.ports[name], prompts[:bs], TOKENS)
            ids = [answer["output_ids"] for answer in found]
            steps = sum(answer["meta_info"]["spec_verify_ct"] for answer in found)
            gaps = [gap(servers.ports["plain"], p, a[:TOKENS], i) for p, a, i in zip(prompts, plain, ids, strict=False)]
            differ = {i: g for i, g in enumerate(gaps) if g is not None}
            same = bs - len(differ)
            widest = max([widest, *(abs(nats) for _, nats in differ.values())])
            say(f"  batch {bs}: accepted {TOKENS * bs / steps:.2f} a step; as plain {same} of {bs}; gaps {differ}")
            answers += ids
        (folder / f"{name}.ids.json").write_text(json.dumps(answers))
    for name in names[1:]:
        eager, graph = folder / f"{name}-eager.ids.json", folder / f"{name}.ids.json"
        if eager.exists() and graph.exists():
            pairs = list(zip(json.loads(graph.read_text()), json.loads(eager.read_text()), strict=True))
            same = sum(a == b for a, b in pairs)
            places = [first_difference(a, b) for a, b in pairs if a != b]
            say(f"{name}: graph replay and eager give the same tokens in {same} of {len(pairs)} answers; {places}")
    return len(up) == len(names) and widest <= GAP


if __name__ == "__main__":
    sys.exit(main())
