"""One step of DDTREE: SGLang's DFLASH worker with another decode step; prefill and set-up are its own.

    the drafter's graph   draft, trees, where their rows stand
    the target's graph    mask, pass over N rows, walk, KV of the path to the front, drafter's KV of the path

Everything is queued on the GPU; nothing is read back between a draft and the next. The target's width is N = budget
+ 1, in the server's arguments and so in every buffer that SGLang sizes; the drafter keeps its block, in a copy of
the arguments.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

import torch
from sglang.srt.configs.hybrid_arch import mambaish_config
from sglang.srt.distributed import get_tp_group
from sglang.srt.managers.scheduler import GenerationBatchResult
from sglang.srt.model_executor.cuda_graph_config import Backend
from sglang.srt.speculative.dflash_info_v2 import DFlashDraftInputV2
from sglang.srt.speculative.dflash_worker_v2 import DFlashWorkerV2

from ..settings import DDTree
from . import selftest
from .audit import Audit
from .buffers import TreeBuffers
from .commit import Commit
from .draft import draft, plant_from_graph
from .limits import Limits
from .rules import require
from .sampler import TreeSampler
from .verify import verify

# pools whose tokens lie in one row each of one buffer a layer, keys and values apart or not
_POOLS = ("MHATokenToKVPool", "MLATokenToKVPool", "CpuKVPool")


class DDTreeWorker(DFlashWorkerV2):  # type: ignore[misc]
    settings: DDTree

    def __init__(self, server_args: Any, **kwargs: Any) -> None:
        drafter_args = deepcopy(server_args)
        drafter_args.override("ddtree.drafter", speculative_num_draft_tokens=server_args.speculative_dflash_block_size)
        # a cached property that the copy took along
        drafter_args.__dict__.pop("max_speculative_num_draft_tokens", None)
        super().__init__(drafter_args, **kwargs)
        self.server_args = server_args
        self.width = int(server_args.speculative_num_draft_tokens)
        self.speculative_num_draft_tokens = self.width
        require(
            mambaish_config(self.model_runner.model_config) is None,
            "no-recurrent-state",
            "the target has recurrent layers, whose state cannot follow the branches of a tree",
        )
        self.plants_in_graph = False

    def init_attention_backends(self) -> None:
        super().init_attention_backends()
        runner = self.model_runner
        largest = max([runner.req_to_token_pool.size, *(self.server_args.cuda_graph_config.decode.bs or [])])
        self.trees = TreeBuffers(largest, self.width, self.device)
        runner.attn_backend.trees = self.trees
        runner.attn_backend.depth = self.block_size - 1
        group = get_tp_group()
        self.sampler = TreeSampler(
            runner.model.lm_head,
            self.block_size,
            self.settings.topk,
            self.settings.spine,
            self.trees,
            group if group.world_size > 1 else None,
        )
        pool = runner.token_to_kv_pool
        must_be_movable(pool)
        self.commit = Commit(self, Limits(_eos(runner.model_config), largest, self.device))
        # the target's graphs are captured next
        runner.capture_tail_hooks.append(self.commit.capture)

    def init_cuda_graphs(self) -> None:
        chosen = self.server_args.cuda_graph_config.decode.backend
        require(chosen in (Backend.FULL, Backend.DISABLED), "graph-backend", f"not proven with {chosen} decode graphs")
        super().init_cuda_graphs()
        self.audit = Audit(self)
        selftest.run(self)

    def _maybe_build_draft_sampler(self) -> None:
        """SGLang calls this where it captures the drafter: its own sampler stays away, the trees take the place."""
        self.draft_model_runner.capture_tail_hooks.append(partial(plant_from_graph, self))
        self.plants_in_graph = True

    def forward_batch_generation(self, batch: Any, on_publish: Any = None) -> Any:
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch or batch.forward_mode.is_idle():
            return super().forward_batch_generation(batch, on_publish)
        require(not getattr(batch, "return_logprob", False), "no-logprobs", "DFLASH's family returns none")
        draft_input = batch.spec_info
        require(isinstance(draft_input, DFlashDraftInputV2), "draft-state", f"a {type(draft_input).__name__}")
        return self._step(batch, draft_input, on_publish)

    def _step(self, batch: Any, draft_input: Any, on_publish: Any) -> Any:
        if batch.seq_lens.is_cuda:
            batch.seq_lens.record_stream(torch.cuda.current_stream())
        bs, prefix_lens = len(batch.seq_lens), batch.seq_lens
        draft(self, batch, draft_input)
        in_graph = self.commit.in_graph(batch)
        logits_output, replayed = verify(self, batch, draft_input, self.trees.of(bs))
        self.audit.after_verify(bs, prefix_lens, replayed)
        path = self.commit.replayed(bs) if in_graph else self.commit.after_pass(batch, logits_output)
        self.audit.after_walk(path)
        if on_publish is not None:
            on_publish(path.new_lens)
        # large, and nobody reads it any more
        logits_output.hidden_states = None
        return GenerationBatchResult(
            logits_output=logits_output,
            next_token_ids=path.emitted.view(-1),
            accept_lens=path.lens,
            can_run_cuda_graph=replayed,
            next_draft_input=self._make_next_draft_input_decode(bonus_tokens=path.bonus, new_seq_lens=path.new_lens),
            # the stride of next_token_ids
            speculative_num_draft_tokens=self.block_size,
            new_seq_lens=path.new_lens,
        )

    def kv_buffers(self) -> list[torch.Tensor]:
        return _buffers(self.model_runner.token_to_kv_pool)

    def drafter_kv_buffers(self) -> list[torch.Tensor]:
        return _buffers(self.draft_model_runner.token_to_kv_pool)

    @property
    def graphs_are_on(self) -> bool:
        return bool(self.server_args.cuda_graph_config.decode.backend != Backend.DISABLED)


def must_be_movable(pool: Any) -> None:
    """Raises RuleBroken for a pool in which an accepted row is more than one row of each buffer."""
    require(type(pool).__name__ in _POOLS, "kv-pool", f"accepted rows cannot be moved in a {type(pool).__name__}")
    require(getattr(pool, "k_scale_buffer", None) is None, "kv-pool", "the scales of accepted rows would not be moved")


def _buffers(pool: Any) -> list[torch.Tensor]:
    return list(pool.kv_buffer) if hasattr(pool, "kv_buffer") else [*pool.k_buffer, *pool.v_buffer]


def _eos(model_config: Any) -> set[int]:
    ids = model_config.hf_eos_token_id
    return set() if ids is None else {int(i) for i in ([ids] if isinstance(ids, int) else ids)}
