"""The classes of faults as the on-call engineer reads them: title, kind, and how sure a report is."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """What a whole kind of fault has in common. ``check``, ``do``, ``verify`` are lists of steps."""

    check: tuple[str, ...]
    do: tuple[str, ...]
    verify: tuple[str, ...]
    escalate: str


class FaultClass(NamedTuple):
    title: str
    kind: str
    sure: str


_SERVES = "`ddops status --host HOST` says healthy, which it does after right answers only"
_QUIET = (
    "no new incident: `ssh HOST journalctl -u UNIT -o json --all --since=-10min | ddops faults classify - --phase"
    " promoted`, UNIT as `ddops status` names it"
)
# a promoted release is known-good itself
_FURTHER_BACK = (
    "`ddops history --host HOST`, then `ddops rollback --host HOST --to N`, N promoted before it; without `--to` the"
    " same release would be started again"
)
_RECORD = "the outcome's record: `ddops history --host HOST --last 5`, `--json` for all of it"
_LOG = "the lines before the first one: `ddops logs --host HOST --release N --last 200`"
_DRIVER = (
    "the driver's own lines, with a limit on the time: `timeout 20 nvidia-smi -q -d ECC,PAGE_RETIREMENT,PERFORMANCE`"
)
_KERNEL_LOG = "the kernel's lines of that minute: `journalctl -k -o short-precise --utc --no-pager`"

KINDS: dict[str, Kind] = {
    "kernel": Kind(
        (
            _RECORD,
            _LOG,
            "where it was seen is not where it happened: CUDA reports late",
            _KERNEL_LOG + "; an Xid 13 or 31 of the same process is the same fault",
        ),
        (
            "after a rollback: leave known-good alone",
            "try the same release with `--no-graphs` or a smaller `--budget` on a host without users: it tells capture"
            " from kernel",
            "`CUDA_LAUNCH_BLOCKING=1` or compute-sanitizer there, never on a host that serves",
        ),
        (_SERVES, _QUIET),
        "the same fault on known-good, or on one GPU only: then it is not the release; tell whoever owns the hardware",
    ),
    "startup": Kind(
        (_RECORD, _LOG, "what differs from known-good: `ddops deploy PROFILE --host HOST --dry-run`"),
        ("after a rollback: leave known-good alone", "correct the release; the same one will fail the same way"),
        (_SERVES,),
        "known-good does not start either: something of the host has changed since it was promoted",
    ),
    "memory": Kind(
        (
            _RECORD,
            "who holds the GPU's memory: `timeout 20 nvidia-smi --query-compute-apps=pid,used_memory --format=csv`",
            "the settings that decide: max running requests, mem fraction, context length, budget",
        ),
        (
            "end a leftover process that holds memory, by its pid",
            "otherwise lower `max_running_requests` or the memory fraction in the profile, and deploy again",
        ),
        (_SERVES, _QUIET),
        "memory is held by a pid that does not exist or cannot be killed: the GPU must be reset",
    ),
    "hang": Kind(
        (
            _RECORD,
            "which ranks wrote last, and what: a rank that is silent is the one that hangs",
            _KERNEL_LOG + "; an NVLink or GSP error explains a hang",
        ),
        (
            "in a trial nothing: it was ended and known-good is back",
            f"after promotion: keep what shows it (the journal, py-spy dumps), then {_FURTHER_BACK}",
        ),
        (_SERVES, "decode lines come while requests run"),
        "it hangs again within an hour, or known-good hangs too: suspect a link or a GPU",
    ),
    "process": Kind(
        (_RECORD, _LOG, "a cause is seldom in the last line: look for the first traceback of any rank"),
        ("after a rollback: leave known-good alone", "after a restart: watch it for ten minutes"),
        (_SERVES, _QUIET),
        "it ended twice within an hour, or no line tells why",
    ),
    "quality": Kind(
        (
            _RECORD,
            "what users got since the first line: their answers were wrong with status 200",
            "acceptance on the same traffic: decode lines of known-good and of this release, `accept len`",
        ),
        (
            f"after promotion, as soon as a wrong answer is confirmed: {_FURTHER_BACK}",
            "tell those who used the answers",
        ),
        (_SERVES, "`ddops eval lossless --host HOST` and `ddops eval garbage --host HOST` are passed"),
        "known-good shows it too: the model, the drafter or a GPU is at fault",
    ),
    "hardware": Kind(
        (
            _KERNEL_LOG,
            _DRIVER,
            "which GPU: the incident names its PCI address",
            "whether it came before, on the same GPU: again means hardware",
        ),
        (
            "do not roll back and do not deploy: known-good runs on the same hardware",
            "take the host out of the router; stop the service if it answers wrongly",
            "reset the GPU or restart the host as the driver asks, then start known-good: `ddops rollback --host HOST`",
        ),
        ("no new Xid after a load of ten minutes", _SERVES),
        "at once if the driver asks for a restart or a repair, or if it is the second time on this GPU",
    ),
    "host": Kind(
        (
            _KERNEL_LOG,
            "what the host lacks: `free -g`, `df -h`, `df -i`, `systemctl --failed`",
            "who else runs here: `systemd-cgtop --order=memory --iterations=1`",
        ),
        ("put right what the host lacks", "then `ddops rollback --host HOST`, which starts known-good and proves it"),
        (_SERVES,),
        "the host's owner, if the cause is not this service",
    ),
    "evidence": Kind(
        (
            "what is missing: from which cursor to which, of which unit",
            "whether the engine is well in another way: `ddops status --host HOST`",
        ),
        (
            "treat the time of the gap as unknown, not as healthy",
            "a gap by rate limit: `LogRateLimitIntervalSec=1s` and `LogRateLimitBurst=100000000` in the unit, as ddops"
            " writes it; an interval of 0 does nothing on systemd 252",
        ),
        ("lines of the unit come again", _SERVES),
        "gaps come back: journald or its disk is in trouble",
    ),
}

_CERTAIN = "Certain: no healthy engine writes such a line."
_DRIVER_SAYS = (
    "Certain that the driver wrote it. Whether it hit this service depends on the GPU and the pid in the line."
)
_SYMPTOM = "Certain that it happened; the reason is in another line, which names the incident if it was written."
_LIKELY = "Likely: the words are checked against look-alikes, but programs word this in many ways."
_MEASURED = "Measured over several lines or seconds; one line alone never counts."

CLASSES: dict[str, FaultClass] = {
    "cuda_illegal_memory_access": FaultClass("Illegal memory access", "kernel", _CERTAIN),
    "cuda_illegal_instruction": FaultClass("Illegal instruction on the GPU", "kernel", _CERTAIN),
    "cuda_misaligned_address": FaultClass("Misaligned address on the GPU", "kernel", _CERTAIN),
    "cuda_launch_failure": FaultClass("A kernel's launch failed", "kernel", _CERTAIN),
    "cuda_device_assert": FaultClass("A kernel's own check failed", "kernel", _CERTAIN),
    "cuda_unknown": FaultClass("A CUDA error without a name", "kernel", _CERTAIN),
    "ddtree_rule_broken": FaultClass("A check of DDTREE stopped the engine", "kernel", _CERTAIN),
    "cublas_failure": FaultClass("A matrix library failed", "kernel", _CERTAIN),
    "kernel_failure": FaultClass("FlashInfer, DeepGEMM or DeepEP failed", "kernel", _CERTAIN),
    "xid_application": FaultClass("The driver stopped a process", "kernel", _DRIVER_SAYS),
    "xid_13_graphics_exception": FaultClass("Xid 13: exception in a kernel", "kernel", _DRIVER_SAYS),
    "xid_31_mmu_fault": FaultClass("Xid 31: address that is not mapped", "kernel", _DRIVER_SAYS),
    "xid_43_channel_reset": FaultClass("Xid 43: a channel was reset", "kernel", _DRIVER_SAYS),
    "iommu_fault": FaultClass("A device used memory that is not its own", "kernel", _DRIVER_SAYS),
    "triton_shared_memory": FaultClass("A Triton kernel does not fit the GPU", "startup", _CERTAIN),
    "jit_failure": FaultClass("A kernel could not be compiled", "startup", _CERTAIN),
    "arch_mismatch": FaultClass("The build does not fit the GPU", "startup", _CERTAIN),
    "cuda_graph_capture_failure": FaultClass("CUDA graphs could not be captured", "startup", _SYMPTOM),
    "unknown_flag": FaultClass("An argument that SGLang does not know", "startup", _CERTAIN),
    "port_in_use": FaultClass("A port is taken", "startup", _CERTAIN),
    "weights_load_error": FaultClass("The model cannot be loaded", "startup", _LIKELY),
    "import_error": FaultClass("A package or a library is missing", "startup", _LIKELY),
    "permission_denied": FaultClass("A file may not be read or written", "startup", _LIKELY),
    "startup_failed": FaultClass("The engine did not come up", "startup", _SYMPTOM),
    "bad_settings": FaultClass("Settings that SGLang refuses", "startup", _LIKELY),
    "unit_cannot_run": FaultClass("systemd cannot start the process", "startup", _CERTAIN),
    "start_timeout": FaultClass("The service did not start in its time", "startup", _SYMPTOM),
    "start_limit_hit": FaultClass("systemd gave up restarting", "process", _SYMPTOM),
    "gpu_oom": FaultClass("The GPU's memory is used up", "memory", _CERTAIN),
    "kv_exhausted": FaultClass("No KV slot is left", "memory", _CERTAIN),
    "kv_pool_leak": FaultClass("KV slots are lost or used twice", "memory", _CERTAIN),
    "host_memory": FaultClass("The host gave no memory", "memory", _LIKELY),
    "nan_logits": FaultClass("NaN in the logits", "quality", _CERTAIN),
    "garbage_output_spec": FaultClass("No draft is accepted any more", "quality", _MEASURED),
    "requests_fail": FaultClass("Requests end with status 500", "quality", _MEASURED),
    "nccl_timeout": FaultClass("A collective timed out", "hang", _SYMPTOM),
    "nccl_error": FaultClass("NCCL failed or a rank is gone", "hang", _SYMPTOM),
    "scheduler_watchdog_timeout": FaultClass("The scheduler stands still", "hang", _SYMPTOM),
    "health_check_failed": FaultClass("The health check fails", "hang", _MEASURED),
    "engine_hangs": FaultClass("Requests wait and nothing is decoded", "hang", _MEASURED),
    "scheduler_dead_parent_alive": FaultClass("A scheduler is dead, its parent lives", "hang", _CERTAIN),
    "hung_task": FaultClass("A process stands still in the kernel", "host", _DRIVER_SAYS),
    "scheduler_exception": FaultClass("The scheduler ended with an exception", "process", _SYMPTOM),
    "detokenizer_died": FaultClass("The detokenizer ended", "process", _SYMPTOM),
    "tokenizer_died": FaultClass("The tokenizer manager ended", "process", _SYMPTOM),
    "engine_core_died": FaultClass("The engine's core or a worker ended", "process", _SYMPTOM),
    "child_died": FaultClass("A process of the engine is gone", "process", _SYMPTOM),
    "child_died_parent_cleanup": FaultClass("A child failed, its parent kills the tree", "process", _SYMPTOM),
    "sigabrt": FaultClass("A process aborted itself", "process", _SYMPTOM),
    "segv": FaultClass("A process crashed", "process", _SYMPTOM),
    "sigkill": FaultClass("A process was killed", "process", _SYMPTOM),
    "core_dump": FaultClass("A process crashed and left a core file", "process", _CERTAIN),
    "service_exit_failure": FaultClass("The service ended with an error", "process", _SYMPTOM),
    "service_exit_success_but_dead": FaultClass("The service ended with status 0", "process", _SYMPTOM),
    "stop_timeout": FaultClass("The engine did not stop in its time", "process", _CERTAIN),
    "process_cannot_be_killed": FaultClass("A process that does not die", "hardware", _CERTAIN),
    "driver_mismatch": FaultClass("The driver does not fit", "host", _CERTAIN),
    "gpu_unavailable": FaultClass("No GPU is there to be used", "hardware", _CERTAIN),
    "gpu_memory_error": FaultClass("The GPU's memory failed", "hardware", _CERTAIN),
    "gpu_power": FaultClass("The GPU's power is missing", "hardware", _DRIVER_SAYS),
    "gpu_fallen_off_bus": FaultClass("A GPU has fallen off the bus", "hardware", _DRIVER_SAYS),
    "xid_nvlink": FaultClass("An NVLink failed", "hardware", _DRIVER_SAYS),
    "xid_74_nvlink": FaultClass("Xid 74: NVLink error", "hardware", _DRIVER_SAYS),
    "nvswitch_error": FaultClass("An NVSwitch failed", "hardware", _DRIVER_SAYS),
    "xid_gpu_reset": FaultClass("The GPU needs a reset", "hardware", _DRIVER_SAYS),
    "xid_gpu_memory": FaultClass("The GPU's memory interface", "hardware", _DRIVER_SAYS),
    "xid_48_double_bit_ecc": FaultClass("Memory error that ECC cannot correct", "hardware", _DRIVER_SAYS),
    "xid_63_row_remap": FaultClass("Memory is retired with the next reset", "hardware", _DRIVER_SAYS),
    "xid_64_row_remap_failed": FaultClass("Memory could not be retired", "hardware", _DRIVER_SAYS),
    "xid_94_contained": FaultClass("Xid 94: contained memory error", "hardware", _DRIVER_SAYS),
    "xid_95_uncontained": FaultClass("Xid 95: uncontained memory error", "hardware", _DRIVER_SAYS),
    "xid_109_context_switch": FaultClass("Xid 109: context switch timed out", "hardware", _DRIVER_SAYS),
    "xid_119_gsp": FaultClass("Xid 119, 120: the GPU's system processor", "hardware", _DRIVER_SAYS),
    "xid_c2c": FaultClass("The link between chips", "hardware", _DRIVER_SAYS),
    "xid_45_preemptive_cleanup": FaultClass("Xid 45: clean-up behind a process", "hardware", _DRIVER_SAYS),
    "xid_154_recovery_action": FaultClass("Xid 154: what the GPU needs", "hardware", _DRIVER_SAYS),
    "xid_note": FaultClass("A note of the driver", "hardware", _DRIVER_SAYS),
    "xid_unknown": FaultClass("An Xid that is not in the table", "hardware", _DRIVER_SAYS),
    "pcie_error": FaultClass("The bus failed", "hardware", _DRIVER_SAYS),
    "machine_check": FaultClass("The host's processor or memory failed", "hardware", _DRIVER_SAYS),
    "host_oom_killer": FaultClass("The host ran out of memory", "host", _CERTAIN),
    "disk_full": FaultClass("A file system is full", "host", _CERTAIN),
    "disk_error": FaultClass("A disk failed", "host", _CERTAIN),
    "network_storage": FaultClass("The network file system does not answer", "host", _CERTAIN),
    "host_limits": FaultClass("A limit of the unit is reached", "host", _CERTAIN),
    "daemon_reload_needed": FaultClass("systemd runs an old unit text", "host", _CERTAIN),
    "journald_rate_limit": FaultClass("Lines were thrown away", "evidence", _CERTAIN),
    "journal_damaged": FaultClass("The journal is damaged", "evidence", _CERTAIN),
    "journal_null_message": FaultClass("A line that cannot be read", "evidence", _CERTAIN),
    "journal_lost": FaultClass("The journal cannot be read", "evidence", _CERTAIN),
}
