"""Trains a drafter: python -m ddops_drafter MODEL OUT [--minutes M]

    answers    OUT/texts.pt, the target's answers, made once
    training   OUT/state.pt every so many steps, OUT/loss.csv; goes on where it was left
    result     OUT/drafter, for --speculative-draft-model-path, and OUT/result.json: accept lengths on held-out prompts

Needs torch, transformers and safetensors, and no network.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from . import checkpoint, corpus, shape
from .answers import Text, answer
from .model import Drafter
from .training import Recipe, Target, accepted, train

BUDGETS = (8, 12, 16, 32, 64)


def main() -> int:
    """Runs the parts that are not done yet; returns the exit code."""
    args = _arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.bfloat16 if args.device == "cuda" else torch.float32
    )
    model.to(args.device).eval().requires_grad_(False)
    texts = _texts(args, model, tokenizer)
    learned, held_out = [t for t in texts if not t.held_out], [t for t in texts if t.held_out]
    config = json.loads((args.model / "config.json").read_text())
    of = shape.for_target(
        config, layers=args.layers, block=args.block, taps=tuple(args.taps), mask_token=args.mask_token
    )
    torch.manual_seed(args.seed)
    drafter = Drafter(of).to(args.device)
    recipe = Recipe(steps=args.steps, batch=args.batch, roots=args.roots, rate=args.rate, seed=args.seed)
    target = Target(model, of.taps)
    _say(f"{len(learned)} texts to learn from, {len(held_out)} held out; {_count(drafter):.1f} M parameters")
    with (args.out / "loss.csv").open("a") as curve:

        def tell(step: int, lost: float, rate: float) -> None:
            curve.write(f"{step},{lost:.4f},{rate:.6f}\n")
            curve.flush()
            _say(f"step {step} of {recipe.steps}: loss {lost:.3f}, {time.monotonic() - began:.0f} s")

        state = checkpoint.resume(args.out / "state.pt")
        done = train(
            drafter, target, learned, recipe, state, lambda s: checkpoint.save(args.out / "state.pt", s), tell,
            until=began + 60 * args.minutes, tell_every=20,
        )  # fmt: skip
    checkpoint.export(drafter, args.out / "drafter")
    judged = random.Random(args.seed).sample(held_out, min(args.judged, len(held_out)))  # noqa: S311 - texts
    lengths = accepted(drafter.eval(), target, judged, BUDGETS)
    result: dict[str, Any] = {
        "accept_length": lengths, "judged": len(judged), "steps": done, "recipe": asdict(recipe),
        "shape": of.as_json(), "texts": len(texts), "python": sys.version.split()[0], "torch": torch.__version__,
    }  # fmt: skip
    (args.out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    _say(" ".join(f"{name} {length:.2f}" for name, length in lengths.items()))
    return 0


def _texts(args: argparse.Namespace, model: Any, tokenizer: Any) -> list[Text]:
    path = args.out / "texts.pt"
    if path.exists():
        kept = torch.load(path, weights_only=True)
        return [Text(ids, start, held_out) for ids, start, held_out in kept]
    asked, texts = corpus.prompts(args.seed, args.prompts), []
    torch.manual_seed(args.seed)
    for lead in (0, *args.leads):
        # what is judged by is asked as a user asks
        put = [p for p in asked if not (lead and p.held_out)]
        told = f"of {len(put)}, {lead} tokens sampled before"
        texts += answer(
            model, tokenizer, put, args.tokens, args.generate,
            lambda n, told=told: _say(f"answers {n} {told}"), lead=lead,
        )  # fmt: skip
    torch.save([(text.ids, text.start, text.held_out) for text in texts], path)
    return texts


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ddops_drafter", description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="the target's folder")
    parser.add_argument("out", type=Path, help="where everything is kept")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop training after so many, and tell the result")
    for name, default in (
        ("prompts", 20000), ("tokens", 224), ("generate", 2048), ("layers", 4), ("block", 8), ("mask-token", 4),
        ("steps", 8000), ("batch", 64), ("roots", 96), ("seed", 1), ("judged", 200),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--taps", type=int, nargs="+", default=[1, 8, 14, 21, 27])
    parser.add_argument("--leads", type=int, nargs="*", default=[8], help="answers more, so many tokens sampled before")
    return parser.parse_args()


def _count(drafter: Drafter) -> float:
    return sum(p.numel() for p in drafter.parameters()) / 1e6


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
