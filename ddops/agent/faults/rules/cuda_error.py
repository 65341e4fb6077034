"""CUDA's errors: one rule each, in every spelling that a runtime, a driver, torch, Triton or NCCL gives it.

An error is told by its words ("an illegal memory access was encountered"), its runtime name
(cudaErrorIllegalAddress), its driver name (CUDA_ERROR_ILLEGAL_ADDRESS) or its number alone (700).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..model import ENGINE, RESTART, ROLLBACK, Level, Rule


class CudaError(NamedTuple):
    number: int
    runtime: str
    driver: str
    words: str
    clear: bool  # the words alone tell, without "CUDA error" before them


# torch, Triton, NCCL, TensorRT-LLM, DeepGEMM, JAX, FlashInfer, ggml, HIP
SAYS = (
    r"(?:(?:CUDA|HIP|Triton|CUDART|cuda runtime|driver)[\w \-]{0,24}? ?(?:error|failure|failed|exception)\b"
    r"[^\n]{0,80}?|failed with error(?: code)?:? |\[CUDA\]: |Cuda failure '?(?:\d+ )?'?)"
)
_NUMBERED = (
    r"(?:\bcode ?= ?|(?:CUDA|HIP)(?: runtime| driver)? (?:error|failure)(?: code)?(?: ?\([^)\n]*\))?:? ?\(?"
    r"|Cuda failure |tensor ?map: "
    r"|\bcu(?:Launch|Mem|Stream|Module|Ctx|TensorMap|Event|Graph|Func|Library|Device)\w{0,40}"
    r"[^\n]{0,60}?(?:failed|returned)[^\n]{0,30}? "
    r"|cudaError(?:_t)? ?[=:(]? ?)"
)
_NUMBERED_ANCHORS = (
    "code=",
    "code =",
    "cuda error",
    "hip error",
    "runtime error",
    "driver error",
    "cuda failure",
    "tensor map",
    "tensormap",
    "failed with error",
    "culaunch",
    "cumem",
    "custream",
    "cumodule",
    "cuctx",
    "cutensormap",
    "cuevent",
    "cugraph",
    "cufunc",
    "culibrary",
    "cudevice",
    "cudaerror",
    "cuda runtime",
    "cuda driver",
)


def error(
    name: str,
    fault: str,
    cuda: CudaError,
    why: str,
    *,
    trial: str = ROLLBACK,
    promoted: str = RESTART,
    level: Level = Level.CAUSE,
    also: tuple[str, ...] = (),
    anchors: tuple[str, ...] = (),
    unless: str = "",
    look_alike: str = "",
    by: tuple[str, ...] = (ENGINE,),
) -> Rule:
    """Returns the rule of one CUDA error."""
    words = re.escape(cuda.words).replace("\\ ", " ")
    spellings = [
        words if cuda.clear else SAYS + words + r"(?![\w ]*[- ]?of[- ])",
        rf"\b{cuda.runtime}\b",
        rf"\b{cuda.driver}\b",
        rf"{_NUMBERED}{cuda.number}\b(?![.:]\d)",
        *also,
    ]
    return Rule(
        name=name,
        fault=fault,
        looks_like=tuple(spellings),
        anchors=(cuda.words.lower(), cuda.runtime.lower(), cuda.driver.lower(), *_NUMBERED_ANCHORS, *anchors),
        why=why,
        trial=trial,
        promoted=promoted,
        level=level,
        by=by,
        unless=unless or r"^(?:INFO:? )?(?:Set|Export|Use|Hint|Tip)\b",
        example=f"(Worker pid=4121) RuntimeError: CUDA error: {cuda.words}",
        look_alike=look_alike or f"{cuda.number} tokens were loaded for the CUDA error handbook",
    )
