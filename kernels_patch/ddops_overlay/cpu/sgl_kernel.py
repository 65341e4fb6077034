"""A stand-in for the package sgl_kernel, whose CPU build is on no index: the names that SGLang imports for a CPU.

It exists only where settings say platform cpu and no real sgl_kernel can be imported. Names that the server imports
but this platform never calls raise when called.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from .ops.accept_cache_locs import fill_accept_out_cache_loc
from .ops.bonus_tokens import fill_bonus_tokens
from .ops.extend_cache_locs import assign_extend_cache_locs
from .ops.req_to_token import assign_req_to_token_pool
from .ops.tree_indices import reconstruct_indices_from_tree_mask
from .ops.verify_tree_greedy import verify_tree_greedy

OPERATIONS: dict[str, Callable[..., Any]] = {
    "assign_extend_cache_locs_cpu": assign_extend_cache_locs,
    "assign_req_to_token_pool_cpu": assign_req_to_token_pool,
    "fill_accept_out_cache_loc_cpu": fill_accept_out_cache_loc,
    "fill_bonus_tokens_cpu": fill_bonus_tokens,
    "verify_tree_greedy_cpu": verify_tree_greedy,
}
NOT_PROVIDED = ("build_tree_kernel_efficient_cpu", "copy_all_layer_kv_cache_cpu")


def install() -> None:
    if "sgl_kernel" in sys.modules or importlib.util.find_spec("sgl_kernel") is not None:
        return
    package = ModuleType("sgl_kernel", __doc__)
    package.__path__ = []
    for name, operation in OPERATIONS.items():
        setattr(package, name, operation)
    for name in NOT_PROVIDED:
        setattr(package, name, _not_provided(name))
    speculative = ModuleType("sgl_kernel.speculative")
    speculative.reconstruct_indices_from_tree_mask = reconstruct_indices_from_tree_mask  # type: ignore[attr-defined]
    package.speculative = speculative  # type: ignore[attr-defined]
    sys.modules[package.__name__] = package
    sys.modules[speculative.__name__] = speculative


def _not_provided(name: str) -> Callable[..., NoReturn]:
    def missing(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name} is not provided by the ddops-cpu platform")

    return missing
