"""Drill: the scheduler raises what torch raises for an illegal memory access on a GPU.

It is raised in Scheduler.run_batch, so SGLang's own crash path runs: the traceback, SIGQUIT to the main
process, 5 s of waiting, SIGKILL of itself.

after_steps 0: the first batch of all, a prefill of the server's own warm-up, so the release never gets ready.
after_steps n: the decode step after the n-th (with speculation a step is one verification). The warm-up's
own steps count: it decodes 8 tokens.
"""

from __future__ import annotations

from typing import Any

from ..hooks import Hook

TARGET = "sglang.srt.managers.scheduler.Scheduler.run_batch"

# c10/cuda/CUDAException.cpp and c10/cuda/CUDAMiscFunctions.cpp, as torch 2.9 and newer print it
MESSAGE = """\
CUDA error: an illegal memory access was encountered
Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html \
for more information.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be \
incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""


def hook(after_steps: int) -> Hook:
    steps = 0

    def illegal_access(scheduler: Any, batch: Any, *_args: Any, **_kwargs: Any) -> None:
        nonlocal steps
        if batch.forward_mode.is_decode():
            steps += 1
        if after_steps == 0 or steps > after_steps:
            import torch

            raise torch.AcceleratorError(MESSAGE)

    return Hook(TARGET, "before", illegal_access)
