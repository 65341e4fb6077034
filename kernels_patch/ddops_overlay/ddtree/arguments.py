"""ServerArgs of a DDTREE server: what cannot work is refused with the reason, what follows from the budget is set.

`check` runs in SGLang's argument validator, in the main process, before anything is spawned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..refuse import refuse
from ..settings import DDTree

# How many proposals are made when no setting and no drafter's configuration tells: SGLang's own default.
_BLOCK_SIZE = 16


def check(server_args: Any, settings: DDTree) -> None:
    """Ends the process (78) with every reason why these arguments cannot serve DDTREE."""
    reasons = list(problems(server_args, settings))
    if reasons:
        refuse("DDTREE: " + "; ".join(reasons))


def problems(server_args: Any, settings: DDTree) -> Iterator[str]:
    from sglang.srt.arg_groups.overrides import attention_backends_of, resolved_view

    view = resolved_view(server_args)
    width = settings.budget + 1
    asked = server_args.speculative_num_draft_tokens
    if asked is not None and int(asked) != width:
        yield f"--speculative-num-draft-tokens is {asked}, a budget of {settings.budget} verifies {width}"
    if server_args.speculative_draft_model_path is None:
        yield "--speculative-draft-model-path is missing: DDTREE needs a DFlash drafter"
    else:
        yield from _of_the_block(block_size(server_args), settings)

    needed = "torch_native" if server_args.device == "cpu" else "triton"
    for phase, backend in zip(("prefill", "decode"), attention_backends_of(view), strict=True):
        if backend != needed:
            yield (
                f"the {phase} attention back-end is {backend}, DDTREE verifies trees on {needed} only: the others "
                "take a causal chain, or their tree masks were not proven"
            )
    if view.page_size not in (None, 1):
        yield f"pages of {view.page_size} tokens: accepted rows are moved one by one, so a page is one token"
    for value, reason in (
        (view.enable_dp_attention, "DP attention: the drafter runs without it"),
        (server_args.pp_size != 1, "pipeline parallelism: the drafter needs the target's embeddings and head"),
        (server_args.dcp_size > 1, "decode context parallelism: accepted rows would move between ranks"),
        (server_args.disaggregation_mode != "null", "prefill disaggregation: the drafter's KV is not sent"),
        (server_args.enable_two_batch_overlap, "two-batch overlap: a tree's mask belongs to one batch"),
        (server_args.enable_pdmux, "PD multiplexing: its streams have attention back-ends of their own"),
        (server_args.enable_lora, "LoRA: not proven with tree verification"),
        (
            server_args.enable_deterministic_inference,
            "deterministic inference: SGLang's attention for it saw another tree in a graph than without one",
        ),
        (server_args.speculative_adaptive, "adaptive speculation: the width of captured graphs is fixed"),
        (server_args.device not in ("cuda", "cpu"), f"device {server_args.device}: proven on cuda and cpu only"),
    ):
        if value:
            yield reason


def _of_the_block(block: int, settings: DDTree) -> Iterator[str]:
    depth = block - 1
    if depth < 1:
        yield f"the drafter's block of {block} proposes nothing"
        return
    if settings.budget < depth:
        yield f"a budget of {settings.budget} cannot hold the drafter's chain of {depth}"
    if settings.topk > settings.budget:
        yield f"topk {settings.topk} is above the budget of {settings.budget}: such candidates can never be nodes"
    candidates = sum(settings.topk**d for d in range(1, depth + 1))
    if candidates < settings.budget:
        yield f"topk {settings.topk} at depth {depth} makes {candidates} candidates for a budget of {settings.budget}"


def block_size(server_args: Any) -> int:
    """The drafter's block: --speculative-dflash-block-size, or what its configuration says."""
    if server_args.speculative_dflash_block_size is not None:
        return int(server_args.speculative_dflash_block_size)
    from sglang.srt.speculative.dflash_utils import parse_dflash_draft_config
    from sglang.srt.utils.hf_transformers_utils import get_config

    config = get_config(
        server_args.speculative_draft_model_path,
        trust_remote_code=server_args.trust_remote_code,
        revision=server_args.speculative_draft_model_revision,
        model_override_args=json.loads(server_args.json_model_override_args),
    )
    size = parse_dflash_draft_config(draft_hf_config=config).resolve_block_size(default=_BLOCK_SIZE)
    return int(size)


def resolve(server_args: Any, settings: DDTree) -> None:
    """As SGLang's own _handle_dflash, with two widths: N for the target, the block for the drafter."""
    from sglang.srt.arg_groups import speculative_hook

    server_args.speculative_dflash_block_size = block_size(server_args)
    server_args.speculative_num_draft_tokens = settings.budget + 1
    # neither is DDTREE's, both count in SGLang's arithmetic of buffers
    server_args.speculative_num_steps = 1
    server_args.speculative_eagle_topk = 1
    if server_args.device == "cpu":
        server_args.speculative_draft_attention_backend = "torch_native"
        server_args.disable_overlap_schedule = True
    else:
        speculative_hook._resolve_dflash_draft_attention_backend(server_args)
    if server_args.max_running_requests is None:
        server_args.max_running_requests = 48
    server_args.enable_mixed_chunk = False
