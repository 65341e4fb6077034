"""The libraries above CUDA: cuBLAS, CUTLASS, FlashInfer, DeepGEMM, Triton, the compilers, CUDA graphs."""

from __future__ import annotations

from ..model import RESTART, Level, Rule

RULES = (
    Rule(
        name="cublas",
        fault="cublas_failure",
        looks_like=(
            r"\b(?:CUBLAS|CUDNN|CUSPARSE|CUSOLVER|CUFFT|HIPBLAS)_STATUS_(?!SUCCESS|ALLOC_FAILED)[A-Z_]+",
            r"\bcuDNN error: (?!.{0,300}SUCCESS)",
            r"\bcublas(?:Lt)?\w{0,40} (?:failed|error)",
        ),
        anchors=("_status_", "cudnn error", "cublas"),
        why="a matrix multiplication failed; often a CUDA error of an earlier kernel, or a driver that is too old",
        example="RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasLtMatmul(h, d, a)`",
        look_alike="cublas workspace: CUBLAS_STATUS_SUCCESS",
        promoted=RESTART,
    ),
    Rule(
        name="cutlass",
        fault="cublas_failure",
        looks_like=(
            r"\bcutlass error\b",
            r"\bGPU error \(CUTLASS\)",
            "Error Internal at",
            r"\bcutlass::Status::k(?!Success)\w+",
            r"CUTLASS[^\n]{0,80}(?:failed|Error Internal)",
            r"gemm\.(?:initialize|run)\(\)?[^\n]{0,40}failed",
            "Failed to (?:initialize|run) cutlass",
            r"\[TensorRT-LLM\]\[ERROR\] Assertion failed",
        ),
        anchors=("cutlass", "error internal", "gemm.", "assertion failed"),
        why="a CUTLASS kernel refused its problem or failed in it; shapes that the kernel was not built for",
        example="RuntimeError: cutlass error: Error Internal at /build/csrc/moe/grouped_gemm.cuh:201",
        look_alike="Using CUTLASS fused MoE, error checks are on",
    ),
    Rule(
        name="flashinfer",
        fault="kernel_failure",
        looks_like=(
            r"Error in function '\w+' at",
            (
                r"(?:Buffer overflow|Failed to allocate memory) (?:when allocating memory )?for \w+(?: with size"
                r"|[^\n]{0,300}AlignedAllocator)"
            ),
            r"\b(?:Batch|Single)(?:Prefill|Decode|MLA)\w*(?: Run)? failed(?: with error)?",
            (
                r"\b(?:RMSNorm|SamplingFrom\w+|ApplyRope\w*|MergeState\w*|TopK\w*|VariableLengthMergeStates) failed"
                " with error"
            ),
            "FlashInfer Internal Error",
            r"\bUnsupported (?:max_mma_kv|head_dim|mask_mode|pos_encoding|group_size)\b",
        ),
        anchors=(
            "error in function",
            "alignedallocator",
            "failed",
            "for batch_",
            "flashinfer internal",
            "unsupported ",
        ),
        why="a FlashInfer kernel failed, or does not take this model's shape",
        example="RuntimeError: Error in function 'SinglePrefill' at /opt/fi/prefill.cuh:88: Unsupported head_dim: 72",
        look_alike="flashinfer is used as attention backend",
    ),
    Rule(
        name="deep-gemm",
        fault="kernel_failure",
        looks_like=(
            r"\bAssertion error \(\S*(?:csrc|deep_gemm|deep_ep|deepgemm)\S*\)",
            r"\bFailed: (?:CUDA|Assertion) error \S+:\d+",
            r"\bDeepEP (?:error|timeout)",
            r"\bDeepEP[^\n]{0,40}(?:timeout|timed out)",
            r"deep_gemm\S* error",
            r"\bNVSHMEM[^\n]{0,20} (?:error|abort)",
        ),
        anchors=("assertion error", "failed: ", "deepep", "deep_gemm", "nvshmem"),
        why="DeepGEMM or DeepEP failed its own check",
        example="RuntimeError: Assertion error (csrc/apis/gemm.hpp:120): m == m_expected",
        look_alike="DeepGEMM is enabled, DeepEP mode is auto",
    ),
    Rule(
        name="triton-shared-memory",
        fault="triton_shared_memory",
        looks_like=(
            r"\bOutOfResources: out of resources?: [\w ]+, Required: \d+",
            "out of resource: shared memory, Required",
        ),
        anchors=("out of resource",),
        why="a Triton kernel wants more shared memory than this GPU has; a bigger batch is enough to start it",
        example=(
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware"
            " limit: 101376."
        ),
        look_alike="autotune: skipped 3 configurations, shared memory limit 101376",
        unless=r"\[autotuner\]|\bskip|\bretry",
    ),
    Rule(
        name="arch-warning",
        fault="arch_mismatch",
        looks_like=(
            "Arch conditional MMA instruction used without targeting",
            r"with CUDA capability sm_\d+\w? is not compatible with the current PyTorch installation",
            (
                r"\b(?:sgl[_-]kernel|flash[_-]?attn|FlashAttention)[^\n]{0,60} (?:only supports?|is not supported on"
                r"|not compiled for) (?:Ampere|Hopper|Blackwell|sm_?\d+|compute capability)[^\n]{0,300}"
            ),
            r"\bfeature '[^']+' not supported on \.target 'sm_\d+\w?'",
            r"\bnot a recognized processor for this target\b",
            r"\bValue 'sm_\d+\w?' is not defined for option 'gpu-name'",
            r"ptxas[^\n]{0,40}sm_\d+\w? is not",
        ),
        anchors=(
            "arch conditional mma",
            "not compatible with the current pytorch",
            "only support",
            "is not supported on",
            "not compiled for",
            "not supported on .target",
            "not a recognized processor",
            "is not defined for option",
            "sm_",
        ),
        why="the installed wheels hold no code for this GPU; the first kernel will fail",
        example="NVIDIA B300 with CUDA capability sm_103 is not compatible with the current PyTorch installation.",
        look_alike="Found a GPU with CUDA capability sm_103, it is compatible with the current PyTorch installation",
    ),
    Rule(
        name="triton-compile",
        fault="jit_failure",
        looks_like=(
            r"\btriton\.compiler\.errors\.\w+",
            r"\bPTXASError\b",
            r"\bptxas fatal\b",
            "`ptxas` failed",
            "PassManager::run failed",
            r"\bLLVM ERROR\b",
            r"\bnvcc fatal\b",
            r"\bNVCC compilation failed",
            r"\bNVRTC(?:[ _]ERROR\w*|[^\n]{0,30}failed)",
            "ninja: build stopped",
            r"\bNinja build failed",
            r"\bError building extension\b",
            r"\b(?:kernel|CUDA|NVCC|Triton|JIT|DeepGEMM)\b[^\n]{0,40} compilation failed",
            "Could not find nvcc",
            r"No such file or directory: '[^']*\b(?:nvcc|ninja|ptxas|cicc|gcc|g\+\+)'",
            r"\blibcuda\.so cannot found",
            r"\bBackendCompilerFailed\b",
            r"torch\._inductor\.exc\.\w+",
            r"torch\._dynamo\.exc\.(?:InternalTorchDynamoError|BackendCompilerFailed)",
        ),
        anchors=(
            "triton.compiler.errors",
            "ptxas",
            "passmanager::run",
            "llvm error",
            "nvcc",
            "nvrtc",
            "ninja",
            "error building extension",
            "compilation failed",
            "no such file or directory: '",
            "cannot found",
            "backendcompilerfailed",
            "_inductor.exc",
            "_dynamo.exc",
        ),
        why="a kernel could not be compiled on the host; every start ends the same way",
        example="ninja: build stopped: subcommand failed.",
        look_alike="flashinfer.jit: Finished loading JIT ops: norm",
        unless=r"autotun|\bignor|\bfall(?:ing)? ?back|\bskip",
    ),
    Rule(
        name="capture-failed",
        fault="cuda_graph_capture_failure",
        looks_like=(
            r"\bCapture (?:cuda|CUDA|device) graph failed:",
            r"\bcapture(?: of)? CUDA graphs? failed",
            r"\bFailed to capture (?:\w+ )?(?:cuda )?graph",
            "piecewise (?:cuda|CUDA) graph capture failed",
            r"Cannot call \S+ during CUDA graph capture",
        ),
        anchors=("capture",),
        why="the graphs could not be captured, so the engine does not start with them",
        example="Exception: Capture cuda graph failed: Expected all tensors to be on the same device",
        look_alike="Capture cuda graph begin. This can take up to several minutes. avail mem=20.11 GB",
        level=Level.SYMPTOM,
    ),
)
