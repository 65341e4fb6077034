"""Time of the host by stage of a step: an SGLang plug-in for measurements.

After every 400 batches it prints {"stage_timing": {"step_us": median time from one batch to the next, "stages": {name:
[median us of a call, calls a batch]}}}. A stage's time is that of its calls, what it calls included; the GPU works
on meanwhile. STAGES are functions of SGLang and of the overlay; one that a server does not call is left out.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from typing import Any

_BATCHES = 400
_SRT, _DDTREE = "sglang.srt.", "ddops_overlay.ddtree."
STAGES = [
    f"{_SRT}managers.scheduler:Scheduler.get_next_batch_to_run",
    f"{_SRT}managers.scheduler:Scheduler.process_batch_result",
    f"{_SRT}managers.utils:GenerationBatchResult.copy_to_cpu",
    f"{_SRT}speculative.dflash_worker_v2:DFlashWorkerV2.forward_batch_generation",
    f"{_SRT}speculative.dflash_worker_v2:DFlashWorkerV2._append_target_hidden_to_draft_kv_by_loc",
    f"{_SRT}speculative.dflash_info:DFlashVerifyInput.prepare_for_verify",
    f"{_SRT}layers.attention.triton_backend:TritonAttnBackend.init_forward_metadata_out_graph",
    f"{_SRT}model_executor.model_runner:ModelRunner.forward",
    f"{_DDTREE}worker:DDTreeWorker.forward_batch_generation",
    f"{_DDTREE}worker:draft",
    f"{_DDTREE}worker:verify",
    f"{_DDTREE}commit:Commit.in_graph",
    f"{_DDTREE}commit:Commit.replayed",
    f"{_DDTREE}commit:Commit.after_pass",
]
_BATCH = f"{_SRT}managers.scheduler:Scheduler.run_batch"

_spent: dict[str, list[float]] = defaultdict(list)
_began: list[float] = []


def load() -> None:
    """Entry point of group sglang.srt.plugins."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register("sglang.srt.managers.scheduler.configure_scheduler_process", _time_all, HookType.AFTER)


def _time_all(*_args: Any, **_kwargs: Any) -> None:
    for target in (*STAGES, _BATCH):
        module, path = target.split(":")
        home: Any = import_module(module)
        *outer, name = path.split(".")
        for part in outer:
            home = getattr(home, part)
        setattr(home, name, _timed(getattr(home, name), path, target == _BATCH))


def _timed(function: Callable[..., Any], name: str, is_batch: bool) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            _spent[name].append(time.perf_counter() - start)
            if is_batch:
                _began.append(start)
                if len(_began) == _BATCHES:
                    _report()

    return timed


def _report() -> None:
    step = statistics.median(b - a for a, b in itertools.pairwise(_began))
    stages = {
        name: [round(statistics.median(times) * 1e6, 1), round(len(times) / len(_began), 2)]
        for name, times in _spent.items()
    }
    print(json.dumps({"stage_timing": {"step_us": round(step * 1e6, 1), "stages": stages}}), flush=True)  # noqa: T201
    _spent.clear()
    _began.clear()
