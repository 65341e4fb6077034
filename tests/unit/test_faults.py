"""The illegal memory access in the spellings of the world, and what only looks like it."""

from __future__ import annotations

import pytest

from ddops.agent import faults
from ddops.agent.journal import Entry, _Streams


def entry(message: str) -> Entry:
    return Entry(message, 1, "cursor", 42, "lab", "stdout", "lab-0001.service")


@pytest.mark.parametrize(
    "line",
    [
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "(Worker pid=7) RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered",
        "ring.cc:90 NCCL WARN Cuda failure 'an illegal memory access was encountered'",
        "WARNING model.py:1] Failed to pickle inputs: CUDA error: an illegal memory access was encountered",
        'CUDA error at k.cu:5 code=700(cudaErrorIllegalAddress) "cudaDeviceSynchronize()"',
        "cuLaunchKernel returned CUDA_ERROR_ILLEGAL_ADDRESS",
        "Exception: Failed to encode tensor map: 700",
        "Starting GPU coredump generation, set the CUDA_COREDUMP_SHOW_PROGRESS environment variable to 1",
        "│ ERROR engine.py:1] RuntimeError: CUDA error: an illegal memory access was encountered │",
        "Scheduler hit an exception: Traceback\n  File x\nCUDA error: an illegal memory access was encountered",
        "TP0] CUDA error: an ill[TP1] RuntimeError: CUDA error: an illegal memory access was encountered",
    ],
)
def test_it_is_found_in_every_spelling(line: str) -> None:
    found = faults.classify(entry(line))
    assert found is not None
    assert found.rule == "illegal-memory-access"
    assert found.pid == 42


@pytest.mark.parametrize(
    "line",
    [
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "Cannot detect CUDA architecture",
        "Decode batch, #running-req: 1, accept len: 1.00, cuda graph: True, gen throughput (token/s): 700.00",
        "Receive: obj=GenerateReqInput(text='why an illegal memory access was encountered', stream=True)",
        "Finish: obj=GenerateReqInput(text='an illegal memory access was encountered')",
        "CUDA error: out of memory",
        "700 tokens were loaded",
    ],
)
def test_what_only_looks_like_it_is_not(line: str) -> None:
    assert faults.classify(entry(line)) is None


def test_a_line_that_journald_cut_in_the_middle_of_the_fault_is_joined() -> None:
    streams = _Streams()
    first = streams.join(b"s1", b"x" * 49152 + b"CUDA error: an illegal m", b"line-max")
    other = streams.join(b"s2", b"something else", b"")
    second = streams.join(b"s1", b"emory access was encountered", b"")
    assert faults.classify(entry(first.decode())) is None
    assert faults.classify(entry(other.decode())) is None
    assert faults.classify(entry(second.decode())) is not None
