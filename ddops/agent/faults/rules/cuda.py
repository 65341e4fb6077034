"""CUDA's errors of kernels, graphs and memory."""

from __future__ import annotations

from ..model import PAGE, Level
from .cuda_error import SAYS, CudaError, error

_LOST = "the CUDA context of the process is lost, every later call fails"
_CAPTURE = "something that a CUDA graph cannot record was called while one was captured"

RULES = (
    error(
        "illegal-memory-access",
        "cuda_illegal_memory_access",
        CudaError(
            700,
            "cudaErrorIllegalAddress",
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            "an illegal memory access was encountered",
            True,
        ),
        "a kernel read or wrote outside its buffers; " + _LOST,
        # the first sign with CUDA_ENABLE_COREDUMP_ON_EXCEPTION; ROCm's spelling; compute-sanitizer's
        also=(
            r"Starting GPU coredump generation",
            r"Memory access fault by GPU node-\d+",
            r"Invalid __(?:global|shared|local)__ (?:read|write|atomic) of size",
            r"\bhipErrorIllegalAddress\b",
            r"^egal memory access was encountered",
        ),
        anchors=(
            "starting gpu coredump generation",
            "memory access fault by gpu",
            "invalid __",
            "hiperrorillegaladdress",
            "egal memory access was encountered",
        ),
        look_alike="Set CUDA_LAUNCH_BLOCKING=1 to find the kernel behind an illegal memory access",
    ),
    error(
        "illegal-instruction",
        "cuda_illegal_instruction",
        CudaError(
            715,
            "cudaErrorIllegalInstruction",
            "CUDA_ERROR_ILLEGAL_INSTRUCTION",
            "an illegal instruction was encountered",
            True,
        ),
        "a kernel ran into what is no instruction, often after a write outside its buffers; " + _LOST,
    ),
    error(
        "misaligned-address",
        "cuda_misaligned_address",
        CudaError(716, "cudaErrorMisalignedAddress", "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address", False),
        "a kernel used an address that its access width does not allow; " + _LOST,
    ),
    error(
        "invalid-address-space",
        "cuda_launch_failure",
        CudaError(
            717,
            "cudaErrorInvalidAddressSpace",
            "CUDA_ERROR_INVALID_ADDRESS_SPACE",
            "operation not supported on global/shared address space",
            True,
        ),
        "a kernel used a pointer of the wrong memory; " + _LOST,
    ),
    error(
        "invalid-program-counter",
        "cuda_launch_failure",
        CudaError(718, "cudaErrorInvalidPc", "CUDA_ERROR_INVALID_PC", "invalid program counter", False),
        "a kernel jumped out of its code; " + _LOST,
    ),
    error(
        "launch-failure",
        "cuda_launch_failure",
        CudaError(719, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure", True),
        "a kernel failed for a reason that the driver does not name; " + _LOST,
    ),
    error(
        "launch-timeout",
        "cuda_launch_failure",
        CudaError(
            702, "cudaErrorLaunchTimeout", "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated", True
        ),
        "a kernel ran longer than the driver allows; " + _LOST,
    ),
    error(
        "launch-out-of-resources",
        "cuda_launch_failure",
        CudaError(
            701,
            "cudaErrorLaunchOutOfResources",
            "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
            "too many resources requested for launch",
            True,
        ),
        "a kernel asks for more registers or threads than this GPU has",
        promoted=PAGE,
    ),
    error(
        "hardware-stack-error",
        "cuda_launch_failure",
        CudaError(714, "cudaErrorHardwareStackError", "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error", False),
        "a kernel broke its call stack; " + _LOST,
    ),
    error(
        "invalid-launch",
        "cuda_launch_failure",
        CudaError(
            9,
            "cudaErrorInvalidConfiguration",
            "CUDA_ERROR_INVALID_CONFIGURATION",
            "invalid configuration argument",
            False,
        ),
        "a kernel was launched with sizes that no GPU takes: a batch or a width out of its range",
        also=(SAYS + r"invalid argument\b", r"\bcudaErrorInvalidValue\b", r"\bCUDA_ERROR_INVALID_VALUE\b"),
        anchors=("invalid argument", "cudaerrorinvalidvalue", "cuda_error_invalid_value"),
    ),
    error(
        "invalid-resource-handle",
        "cuda_launch_failure",
        CudaError(400, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle", False),
        "a stream, event or graph was used that does not exist (any more)",
    ),
    error(
        "cooperative-launch-too-large",
        "cuda_launch_failure",
        CudaError(
            720,
            "cudaErrorCooperativeLaunchTooLarge",
            "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
            "too many blocks in cooperative launch",
            True,
        ),
        "a cooperative kernel does not fit the GPU",
        promoted=PAGE,
    ),
    error(
        "device-assert",
        "cuda_device_assert",
        CudaError(710, "cudaErrorAssert", "CUDA_ERROR_ASSERT", "device-side assert triggered", True),
        "a kernel's own check failed: an index or a value out of range; " + _LOST,
        # the check itself, one line for each thread of the GPU
        also=(r"\bblock: \[\d+, ?\d+, ?\d+\], thread: \[\d+, ?\d+, ?\d+\],? Assertion",),
        anchors=("assertion",),
        promoted=PAGE,
        look_alike="(Worker pid=4121) Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    ),
    error(
        "capture-unsupported",
        "cuda_graph_capture_failure",
        CudaError(
            900,
            "cudaErrorStreamCaptureUnsupported",
            "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            "operation not permitted when stream is capturing",
            True,
        ),
        _CAPTURE,
        promoted=PAGE,
    ),
    error(
        "capture-invalidated",
        "cuda_graph_capture_failure",
        CudaError(
            901,
            "cudaErrorStreamCaptureInvalidated",
            "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
            "operation failed due to a previous error during capture",
            True,
        ),
        "a capture failed earlier; the first error tells why",
        promoted=PAGE,
        level=Level.SYMPTOM,
        also=(
            r"\bcudaErrorStreamCapture(?:Merge|Unmatched|Unjoined|Isolation|Implicit|WrongThread)\b",
            r"\bCUDA_ERROR_STREAM_CAPTURE_\w+",
            r"\bcudaErrorCapturedEvent\b",
            r"\bcudaErrorGraphExecUpdateFailure\b",
            r"operation would (?:make the legacy stream depend on a capturing blocking stream|result in a merge of)",
            r"capturing stream has unjoined work",
            r"dependency created on uncaptured work in another stream",
            r"operation not permitted on an event last recorded in a capturing stream",
            r"attempt to terminate a thread-local capture sequence from another thread",
            r"Cannot prepare for replay during capturing stage",
            r"Offset increment outside graph capture encountered",
            r"the graph update was not performed because",
        ),
        anchors=(
            "cudaerrorstreamcapture",
            "cuda_error_stream_capture",
            "cudaerrorcapturedevent",
            "operation would",
            "cudaerrorgraphexecupdate",
            "captur",
            "graph update was not",
        ),
    ),
    error(
        "cuda-out-of-memory",
        "gpu_oom",
        CudaError(2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory", False),
        "the GPU's memory is used up: by this engine's settings, or by another process on that GPU",
        also=(
            r"\b(?:CUDA|HIP) out of memory\. Tried to allocate",
            r"\btorch\.(?:cuda\.)?OutOfMemoryError\b",
            r"^OutOfMemoryError\b",
            r"\b(?:Triton Error \[CUDA\]|Cuda failure '?(?:\d+ ')?):? ?out of memory",
            r"\bCUBLAS_STATUS_ALLOC_FAILED\b",
        ),
        anchors=("outofmemoryerror", "cublas_status_alloc_failed"),
        unless=r"\bretry|\bfall(?:ing)? ?back|\bretrying|\bsucceeded|\brecovered|Check failed: Out of memory",
        look_alike="CUDA out of memory. Tried to allocate 2.00 GiB. Retrying with a smaller chunk",
    ),
    error(
        "unknown-cuda-error",
        "cuda_unknown",
        CudaError(999, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error", False),
        "the driver itself does not know what happened; its lines in the kernel's log may",
    ),
    error(
        "context-destroyed",
        "cuda_unknown",
        CudaError(709, "cudaErrorContextIsDestroyed", "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed", False),
        "the process uses a CUDA context that is gone; an earlier error tells why",
        level=Level.SYMPTOM,
        also=(
            SAYS + r"(?:initialization error|invalid device context|driver shutting down|operation not supported"
            r"|OS call failed or operation not supported on this OS|not permitted)\b",
            r"\bcudaError(?:InitializationError|NotPermitted|NotSupported|OperatingSystem|DeviceUninitialized)\b",
            r"\b(?:torch\.)?AcceleratorError: ",
            r"\bCUDA error: (?!\d|CUBLAS)[a-z]",
        ),
        anchors=("error", "failure", "exception"),
    ),
)
