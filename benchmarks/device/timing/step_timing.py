"""GPU time of each replay of a decode graph, by events around it: an SGLang plug-in for measurements.

After every 200 replays of one worker and one batch size it prints {"step_timing": {"worker": "target" or "draft",
"bs": ..., "median_us": ..., "p10_us": ..., "p90_us": ..., "step_us": median time from one replay to the next}}.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections import defaultdict
from typing import Any

_SAMPLES = 200
_seen: dict[Any, list[tuple[Any, Any, float]]] = defaultdict(list)


def load() -> None:
    """Entry point of group sglang.srt.plugins."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    target = "sglang.srt.model_executor.runner.decode_cuda_graph_runner.DecodeCudaGraphRunner.execute"
    HookRegistry.register(target, _execute, HookType.AROUND)


def _execute(original: Any, runner: Any, *args: Any, **kwargs: Any) -> Any:
    import torch

    if not hasattr(runner.backend, "untimed_replay"):
        runner.backend.untimed_replay = replay = runner.backend.replay

        def timed(*a: Any, **k: Any) -> Any:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            out = replay(*a, **k)
            end.record()
            key = ("draft" if runner.model_runner.is_draft_worker else "target", runner.bs)
            _seen[key].append((start, end, time.perf_counter()))
            if len(_seen[key]) == _SAMPLES:
                _report(key)
            return out

        runner.backend.replay = timed
    return original(runner, *args, **kwargs)


def _report(key: tuple[str, int]) -> None:
    import torch

    torch.cuda.synchronize()
    samples = _seen.pop(key)
    times = sorted(start.elapsed_time(end) * 1e3 for start, end, _ in samples)
    steps = [(b[2] - a[2]) * 1e6 for a, b in itertools.pairwise(samples)]
    content = {
        "worker": key[0],
        "bs": key[1],
        "median_us": round(statistics.median(times), 1),
        "p10_us": round(times[_SAMPLES // 10], 1),
        "p90_us": round(times[_SAMPLES * 9 // 10], 1),
        "step_us": round(statistics.median(steps), 1),
    }
    print(json.dumps({"step_timing": content}), flush=True)  # noqa: T201
