"""The algorithm DDTREE as SGLang knows it: registered beside the built-in ones, of DFLASH's family.

0.5.16 calls three methods on every algorithm that its base class for plug-ins does not have: create_future_map,
need_topk and carries_draft_hidden_states.
"""

from __future__ import annotations

from typing import Any

from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS, register_attention_backend
from sglang.srt.managers.overlap_utils import FutureMap
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from sglang.srt.speculative.spec_registry import CustomSpecAlgo

from ..settings import DDTree
from . import NAME, arguments


class _FutureMap(FutureMap):  # type: ignore[misc]
    """DFLASH relays no hidden states from step to step; SGLang knows that of its own algorithms by name."""

    def _lazy_init_forward_buf(self, payload: Any) -> None:
        super()._lazy_init_forward_buf(payload)
        self.need_hidden_states = False


class DDTreeAlgorithm(CustomSpecAlgo):  # type: ignore[misc]
    settings: DDTree

    def is_dflash(self) -> bool:
        return True

    def is_dflash_family(self) -> bool:
        return True

    def supports_target_verify_for_draft(self) -> bool:
        return True

    def need_topk(self) -> bool:
        return False

    def carries_draft_hidden_states(self) -> bool:
        return False

    def create_future_map(
        self,
        device: Any,
        req_to_token_pool: Any,
        needs_cpu_seq_lens: bool = True,
        needs_confidence_relay: bool = False,
    ) -> FutureMap:
        return _FutureMap(device, self, req_to_token_pool, needs_cpu_seq_lens, needs_confidence_relay)

    def handle_server_args(self, server_args: Any) -> None:
        arguments.resolve(server_args, self.settings)


def register(settings: DDTree) -> None:
    class Configured(DDTreeAlgorithm):
        pass

    Configured.settings = settings

    @SpeculativeAlgorithm.register(  # type: ignore[untyped-decorator]
        NAME,
        supports_overlap=True,
        validate_server_args=lambda server_args: arguments.check(server_args, settings),
        spec_class=Configured,
    )
    def worker(_server_args: Any) -> type:
        from .worker import DDTreeWorker

        DDTreeWorker.settings = settings
        return DDTreeWorker

    _register_attention()


def _register_attention() -> None:
    """The name `triton` gives a DDTREE target its own back-end; a drafter and every other algorithm get SGLang's."""
    stock = ATTENTION_BACKENDS["triton"]

    @register_attention_backend("triton")  # type: ignore[untyped-decorator]
    def create(runner: Any) -> Any:
        if getattr(runner.spec_algorithm, "name", None) != NAME or runner.is_draft_worker:
            return stock(runner)
        from .attention import DDTreeTritonAttnBackend

        return DDTreeTritonAttnBackend(runner)
