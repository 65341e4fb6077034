"""The host under the engine: its memory, disks, buses and kernel."""

from __future__ import annotations

import re

from ..model import ENGINE, IGNORE, KERNEL, PAGE, RESTART, SYSTEMD, Level, Rule

# programs whose end is nobody's fault here; an engine's processes are python, pt_main_thread, sglang::…, VLLM::…
_OTHERS = re.compile(
    r"Xorg|Xwayland|gnome|kwin|plasma|chrom|firefox|electron|code$|slack|discord|ffmpeg|blender|steam|obs|plex|jellyfin"
    r"|postgres|mysqld|mariadbd|redis|mongod|java$|node$|nginx|apache|php|dockerd|containerd|kubelet|etcd|systemd|sshd"
    r"|bash$|rsync|tar$|gcc|cc1|clang|ld$|cargo|rustc|stress|jbd2|kworker|kswapd|md\d+_|btrfs|xfs|dpkg|apt|snapd"
    r"|ray::(?!.{0,300}(?:sglang|vllm|LLM|Engine))\w*|WorkerDict|train|trainer|torchrun|deepspeed|jupyter|ipykernel|dcgm|nv-hostengine"
    r"|prometheus|grafana|clickhouse|elastic|gpu_burn|hashcat|xmrig|mbuffer|cp$|dd$"
    r"|\w+[_-]export|telegraf|fluent-?bit|fluentd|vector$|promtail|alloy$|otelcol|filebeat|metricbeat|datadog|zabbix|loki$",
    re.IGNORECASE,
)


def is_another_program(name: str) -> bool:
    """Tells whether a process name is surely not one of an engine's."""
    return bool(name) and bool(_OTHERS.match(name))


RULES = (
    Rule(
        name="oom-killer",
        fault="host_oom_killer",
        looks_like=(
            r"\b(?:Out of memory|Memory cgroup out of memory)(?: \([^)]*\))?: Kill(?:ed)? process \d+",
            r"\boom-kill:constraint=",
            r"\boom_reaper: reaped process",
            r"\bTasks in \S+ are going to be killed due to memory\.oom\.group",
        ),
        anchors=("out of memory", "oom-kill:", "oom_reaper", "memory.oom.group"),
        why="the host ran out of memory and the kernel killed a process of the engine",
        example="Out of memory: Killed process 40123 (python3) total-vm:901234567kB, anon-rss:512345678kB",
        look_alike="Out of memory: Killed process 811 (postgres) total-vm:1234kB, anon-rss:1000kB",
        level=Level.ROOT,
        by=(KERNEL, ENGINE),
    ),
    Rule(
        name="kernel-segfault",
        fault="segv",
        looks_like=(
            r"\S+\[\d+\]: segfault at [0-9a-f]+ ip",
            r"\btraps: \S+\[\d+\](?::)? (?:general protection|trap invalid opcode|trap divide)",
            r"\S+\[\d+\] general protection",
        ),
        anchors=("segfault at", "general protection", "invalid opcode", "trap divide"),
        why="the kernel saw a process of the engine crash",
        example="python3[40123]: segfault at 18 ip 00007f12 sp 00007ffe error 4 in libcuda.so.580.65.06[7f12+1000]",
        look_alike="postgres[811]: segfault at 0 ip 000055 sp 00007f error 4 in postgres[55+2000]",
        promoted=RESTART,
        level=Level.SYMPTOM,
        by=(KERNEL,),
    ),
    Rule(
        name="hung-task",
        fault="hung_task",
        looks_like=(
            r"\btask \S+:\d+ blocked for more than \d+ seconds",
            r"\bsoft lockup - CPU#\d+ stuck",
            r"\bhard LOCKUP on cpu",
            r"\brcu\S*(?: INFO:)? \S*rcu\S* (?:self-)?detected (?:expedited )?stalls?",
        ),
        anchors=(
            "blocked for more than",
            "soft lockup",
            "hard lockup",
            "detected stall",
            "self-detected",
            "detected expedited",
        ),
        why=(
            "a process of the engine stands still in the kernel, mostly in the GPU driver or on a dead network"
            " file system"
        ),
        example="INFO: task sglang::schedul:40123 blocked for more than 122 seconds.",
        look_alike="INFO: task jbd2/sda1-8:311 blocked for more than 122 seconds.",
        trial=PAGE,
        stopping=PAGE,
        severity="hardware",
        level=Level.ROOT,
        by=(KERNEL,),
    ),
    Rule(
        name="driver-lost-gpu",
        fault="gpu_fallen_off_bus",
        looks_like=(
            r"\bGPU has fallen off the bus",
            r"\bhas fallen off the bus\b",
            r"\bfallen off the bus and is not responding",
            r"\bRmInitAdapter failed",
            r"\brm_init_adapter failed",
            r"\bprobe routine failed for \d+ device",
            r"\bosInitNvMapping: \*\*\* Cannot attach gpu",
            r"\bGPU is (?:probably locked|lost)",
            r"\bGPU requires reset\b",
            r"\bnvidia: probe of \S+ failed with error",
        ),
        anchors=(
            "fallen off the bus",
            "adapter failed",
            "probe routine failed",
            "cannot attach gpu",
            "probably locked",
            "gpu is lost",
            "requires reset",
            "probe of",
        ),
        why=(
            "the driver lost a GPU: power, heat, the slot, or the card; nothing starts on it before a reset or a repair"
        ),
        example="NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x22:0x56:894)",
        look_alike="NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.65.06",
        trial=PAGE,
        stopping=PAGE,
        severity="hardware",
        level=Level.ROOT,
        by=(KERNEL, ENGINE),
    ),
    Rule(
        name="fabric-manager",
        fault="gpu_unavailable",
        looks_like=(
            (
                r"\bnvidia-fabricmanager\.service: (?:Main process exited, code=(?!exited, status=0)|Failed with"
                " result)"
            ),
        ),
        anchors=("nvidia-fabricmanager.service",),
        why="the service that runs the NVLink fabric ended; engines on several GPUs hang or cannot start",
        example="systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.",
        look_alike="systemd[1]: Started nvidia-fabricmanager.service - NVIDIA fabric manager service.",
        trial=PAGE,
        stopping=PAGE,
        severity="hardware",
        level=Level.ROOT,
        by=(SYSTEMD,),
    ),
    Rule(
        name="pcie",
        fault="pcie_error",
        looks_like=(
            r"\bAER: (?:Multiple )?Uncorrect(?:ed|able) \((?:Non-)?Fatal\) error",
            r"\bPCIe Bus Error: severity=Uncorrect(?:ed|able)",
            r"\bpciehp: Slot\(\S+\): (?:Link Down|Card not present)",
            r"\bAER: device recovery failed",
            r"\bcontainment event, status",
            r"\bDPC: (?:containment|unmasked uncorrectable)",
            r"\bnot ready \d+ms after (?:FLR|bus reset|resume)",
        ),
        anchors=("uncorrect", "pciehp", "recovery failed", "containment", "not ready"),
        why="the bus to a device failed and the kernel could not correct it",
        example="pcieport 0000:60:01.1: AER: Uncorrectable (Fatal) error message received from 0000:61:00.0",
        look_alike="pcieport 0000:60:01.1: AER: Corrected error message received from 0000:61:00.0",
        trial=PAGE,
        stopping=PAGE,
        severity="hardware",
        level=Level.ROOT,
        by=(KERNEL,),
    ),
    Rule(
        name="iommu",
        fault="iommu_fault",
        looks_like=(
            r"\bAMD-Vi: Event logged \[(?:IO_PAGE_FAULT|ILLEGAL_DEV_TABLE|INVALID_DEVICE_REQUEST)",
            r"\bDMAR: \[(?:DMA|INTR)[^\]]*\][^\n]{0,300}fault",
            r"\bamd_iommu_report_page_fault: \d+ callbacks",
            r"\barm-smmu[^\n]{0,300}Unhandled context fault",
        ),
        anchors=("amd-vi: event logged", "dmar: [", "amd_iommu_report_page_fault", "context fault"),
        why=(
            "a device read or wrote memory that the IOMMU does not give it; with a heap error beside it, the"
            " same bad copy"
        ),
        example=(
            "nvidia 0000:3b:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0011 address=0xd0000000 flags=0x0000]"
        ),
        look_alike="AMD-Vi: Interrupt remapping enabled",
        severity="hardware",
        by=(KERNEL,),
    ),
    Rule(
        name="machine-check",
        fault="machine_check",
        looks_like=(
            r"\[Hardware Error\]: (?:Uncorrected|Fatal|CPU \d+: Machine Check(?: Exception)?: [^0])",
            r"\bEDAC \S+ ?\d*: [1-9]\d* UE\b",
            r"\bUncorrected hardware memory error",
            r"\bMemory failure: 0x[0-9a-f]+: (?!.{0,300}[Rr]ecovered)",
        ),
        anchors=("hardware error", "edac", "memory failure"),
        why="the host's processor or memory is damaged",
        example="mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 4: be00000000800400",
        look_alike="EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
        trial=PAGE,
        stopping=PAGE,
        severity="hardware",
        level=Level.ROOT,
        by=(KERNEL,),
    ),
    Rule(
        name="disk-full",
        fault="disk_full",
        looks_like=(
            r"\bNo space left on device\b",
            r"\[Errno 28\]",
            r"\bENOSPC\b",
            r"\bDisk quota exceeded\b",
        ),
        anchors=("no space left on device", "errno", "enospc", "quota exceeded"),
        why="a file system is full: /dev/shm, a cache, or the disk; known-good needs it as well",
        example="OSError: [Errno 28] No space left on device: '/var/cache/triton/ab12'",
        look_alike="Disk space left on device: 2.1 TB",
        trial=PAGE,
        by=(ENGINE, KERNEL, SYSTEMD),
        unless=r"\bretry|core ?dump",
    ),
    Rule(
        name="disk-error",
        fault="disk_error",
        looks_like=(
            r"\bBuffer I/O error on dev",
            r"\bI/O error, dev \S+, sector",
            r"\bblk_update_request: (?:critical )?\w* ?(?:I/O|medium) error",
            r"\b(?:EXT4-fs error|XFS \([^)]*\): (?:Corruption|metadata I/O error|log I/O error))",
            r"\bRemounting filesystem read-only",
            r"\bnvme\S+: (?:Disabling device after reset failure|I/O \d+ QID \d+ timeout, reset)",
            r"\[Errno 5\] Input/output error",
            r"\[Errno 30\] Read-only file system",
        ),
        anchors=("i/o error", "medium error", "-fs error", "xfs (", "read-only", "reset failure", "qid ", "errno"),
        why="a disk or its file system fails; the model or the release may be on it",
        example=(
            "EXT4-fs error (device nvme0n1p2): ext4_find_entry:1683: inode #12: comm python3: reading directory"
            " lblock 0"
        ),
        look_alike="EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode",
        trial=PAGE,
        stopping=PAGE,
        severity="hardware",
        level=Level.ROOT,
        by=(KERNEL, ENGINE),
    ),
    Rule(
        name="nfs-gone",
        fault="network_storage",
        looks_like=(
            r"\bnfs: server \S+ not responding",
            r"\bStale file handle\b",
            r"\[Errno 116\]",
            r"\bceph: mds\d+ (?:hung|caps went stale)",
            r"\bLustreError\b[^\n]{0,300}(?:evicted|timed out)",
        ),
        anchors=("nfs: server", "stale file handle", "errno", "ceph: mds", "lustreerror"),
        why="the network file system does not answer; a load from it stands still",
        example="nfs: server store.example not responding, still trying",
        look_alike="nfs: server store.example OK",
        trial=PAGE,
        severity="hardware",
        level=Level.ROOT,
        by=(KERNEL, ENGINE),
        apart=True,
    ),
    Rule(
        name="nfs-back",
        fault="network_storage",
        looks_like=(r"\bnfs: server \S+ OK\b",),
        anchors=("nfs: server",),
        why="the network file system answers again",
        example="nfs: server store.example OK",
        look_alike="nfs: server store.example not responding, still trying",
        trial=IGNORE,
        promoted=IGNORE,
        severity="evidence",
        by=(KERNEL, ENGINE),
        apart=True,
        withdraws=("nfs-gone",),
    ),
    Rule(
        name="host-memory",
        fault="host_memory",
        looks_like=(
            r"\[Errno 12\]",
            r"\bCannot allocate memory\b",
            r"\bDefaultCPUAllocator: (?:can't|not enough)[^\n]{0,300}memory",
            r"^(?:\w+\.)*MemoryError\b",
            r"\bstd::bad_alloc\b",
            r"\bInsufficient shared memory",
            r"\bunable to allocate (?:shared|pinned|host) memory",
        ),
        anchors=(
            "errno",
            "cannot allocate memory",
            "defaultcpuallocator",
            "memoryerror",
            "bad_alloc",
            "insufficient shared",
            "unable to allocate",
        ),
        why="the engine got no memory of the host",
        example=(
            "RuntimeError: [enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory:"
            " 68719476736 bytes"
        ),
        look_alike="mem usage: host memory 412.1 GB, cannot exceed 900 GB",
        unless=r"\bretry|\bfall(?:ing)? ?back",
    ),
    Rule(
        name="open-files",
        fault="host_limits",
        looks_like=(
            r"\[Errno 24\]",
            r"\bToo many open files\b",
            r"\bcan't start new thread\b",
            r"\bResource temporarily unavailable\b(?=[^\n]{0,300}(?:fork|thread|pthread))",
            r"\bpthread_create failed",
        ),
        anchors=(
            "errno",
            "too many open files",
            "can't start new thread",
            "resource temporarily unavailable",
            "pthread_create",
        ),
        why="a limit of the unit is reached: open files, threads or processes",
        example="OSError: [Errno 24] Too many open files",
        look_alike="ulimit -n is 1048576 open files",
        promoted=RESTART,
        unless=r"OpenBLAS|\bretry",
    ),
)
OF_A_PROCESS = ("oom-killer", "kernel-segfault", "hung-task")
