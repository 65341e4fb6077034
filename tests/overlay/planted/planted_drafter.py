"""A drafter that knows the text: an SGLang plug-in for tests, beside the overlay.

After the real drafter's pass it plants trees of its own in the worker's buffers: at each depth the known next token
stands at a random rank or nowhere, so paths of every length through every sibling are accepted. PLANTED_TEXTS names
a JSON file, a list of token id lists: prompts with their continuations. PLANTED_BATCHES, if set, are the batches that
the overlay's test at start-up examines.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from random import Random
from typing import Any

import torch

_RANKS = (0, 0, 0, 0, 1, 1, 2, 3, None)


def load() -> None:
    """Entry point of group sglang.srt.plugins."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register("sglang.srt.managers.scheduler.configure_scheduler_process", _plant, HookType.AFTER)


def _plant(*_args: Any, **_kwargs: Any) -> None:
    selftest: Any = import_module("ddops_overlay.ddtree.selftest")
    worker: Any = import_module("ddops_overlay.ddtree.worker")
    from ddops_overlay.ddtree.ops.build_tree import build_tree
    from ddops_overlay.ddtree.ops.verify_rows import verify_rows

    drafter = worker.draft
    texts: list[list[int]] = []

    def draft(self: Any, batch: Any, draft_input: Any) -> None:
        drafter(self, batch, draft_input)
        if not texts:
            # written while this server starts
            with open(os.environ["PLANTED_TEXTS"]) as file:
                texts.extend(json.load(file))
        bs, length, width = len(batch.reqs), self.block_size - 1, self.settings.topk
        logp, ids = torch.empty((bs, length, width)), torch.empty((bs, length, width), dtype=torch.int64)
        for b, (request, prefix) in enumerate(zip(batch.reqs, batch.seq_lens.tolist(), strict=True)):
            known = _continuation(texts, list(request.origin_input_ids))
            logp[b], ids[b] = _proposals(known[prefix + 1 :], prefix, length, width)
        device = batch.seq_lens.device
        roots = draft_input.bonus_tokens.to(torch.int64)
        tokens, parents, depths = self.trees.of(bs)
        build_tree(logp.to(device), ids.to(device), roots, tokens, parents, depths, self.settings.spine)
        table = self.model_runner.req_to_token_pool.req_to_token
        verify_rows(
            depths, batch.seq_lens, batch.req_pool_indices, table, self.trees.positions[:bs], self.trees.slots[:bs]
        )

    worker.draft = draft
    if "PLANTED_BATCHES" in os.environ:
        batches = [int(size) for size in os.environ["PLANTED_BATCHES"].split(",")]
        selftest._sizes = lambda _worker: batches


def _continuation(texts: list[list[int]], prompt: list[int]) -> list[int]:
    return next((text for text in texts if text[: len(prompt)] == prompt), [])


def _proposals(known: list[int], prefix: int, length: int, width: int) -> tuple[Any, Any]:
    random = Random(prefix)  # noqa: S311 - a test must repeat itself
    logp = torch.tensor(
        [sorted((-random.random() * 4 - 0.01 for _ in range(width)), reverse=True) for _ in range(length)]
    )
    ids = torch.tensor([random.sample(range(1000, 40000), width) for _ in range(length)])
    for depth, token in enumerate(known[:length]):
        rank = random.choice(_RANKS)
        if rank is not None and rank < width:
            ids[depth, rank] = token
    return logp, ids
