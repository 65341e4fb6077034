"""Ranks that talk to each other: NCCL, gloo, torch's stores."""

from __future__ import annotations

from ..model import RESTART, Level, Rule

RULES = (
    Rule(
        name="collective-timeout",
        fault="nccl_timeout",
        looks_like=(
            r"\bWatchdog caught collective operation timeout",
            r"\bran for \d+ milliseconds before timing out",
            r"\bTimed out waiting \d+ms for (?:recv|send) operation",
            r"\b(?:NCCL|Gloo|gloo)[^\n]{0,60}\b(?:timeout|timed out)\b",
            "ProcessGroupNCCL's watchdog got stuck",
            r"\bSome NCCL operations have failed or timed out",
            r"\bException \(either an error or timeout\) detected by watchdog",
            r"\bReceived a (?:dump signal due to a )?collective timeout",
            r"\bobserved flight recorder dump signal",
            r"\bHeartbeat monitor timed out",
            "To avoid data inconsistency, we are taking the entire process down",
            r"\bTimeout at NCCL work\b",
            r"\bwait timeout after \d+ms\b",
            r"\bcustom all-?reduce[^\n]{0,40}(?:timeout|timed out)",
        ),
        anchors=(
            "collective operation timeout",
            "before timing out",
            "timed out waiting",
            "nccl",
            "gloo",
            "watchdog got stuck",
            "detected by watchdog",
            "collective timeout",
            "flight recorder dump",
            "heartbeat monitor",
            "to avoid data inconsistency",
            "wait timeout after",
            "timed out",
            "timeout",
        ),
        why="a rank waits for others that do not come: one of them hangs or is gone",
        example=(
            "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLGATHER) ran"
            " for 600001 milliseconds before timing out."
        ),
        look_alike="server_args=ServerArgs(dist_timeout=600, watchdog_timeout=300)",
        unless=r"\b[A-Z]*NCCL_\w*TIMEOUT\w*\b|_timeout\w*=|\bset to \d+|\bDefault\b|\b(?:Setting|Using)\b",
    ),
    Rule(
        name="nccl-error",
        fault="nccl_error",
        looks_like=(
            r"\bNCCL error(?: in)?:? (?!.{0,300}ncclSuccess)",
            r"\bNCCL Error \d+: (?!'no error')",
            r"\bnccl(?:UnhandledCuda|System|Internal|Remote)Error\b",
            r"\bncclInvalid(?:Usage|Argument)\b",
            r"\bnccl(?:InvalidUsage|InProgress)Error\b",
            r"\bDistBackendError\b",
            r"\bNCCL WARN (?:Cuda failure|Error|Got completion (?:from peer \S+ )?with (?:error|status))",
            r"\bNCCL WARN [^\n]{0,300}(?:failed with error|error while|unhandled|aborted|async error)",
            r"\bNET/IB ?: ?Got completion[^\n]{0,300}(?:error|fatal|status=[1-9])",
            r"\bNET/IB ?: ?Got async(?:hronous)? (?:fatal )?event[^\n]{0,300}(?:error|fatal)",
        ),
        anchors=("nccl", "distbackenderror", "net/ib"),
        why="NCCL failed: the network between GPUs, a rank that is gone, or a CUDA error of an earlier kernel",
        example="torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:77, unhandled system error",
        look_alike="NCCL version 2.28.9+cuda13.0, NCCL_DEBUG=WARN, error checks on",
        promoted=RESTART,
        level=Level.SYMPTOM,
        unless=r"retrying|\bwill retry|NET/Plugin|Could not find: ",
    ),
    Rule(
        name="rank-lost",
        fault="nccl_error",
        looks_like=(
            (
                r"\bgloo/transport/\S+\] ?(?:Connection closed by peer|.*Connection reset|Read error|Timed out"
                "|.*Broken pipe)"
            ),
            r"\bDist(?:Store|Network)Error\b",
            r"\bTCPStore\b[^\n]{0,120}(?:Broken pipe|Connection reset|timed? ?out|recvValue failed)",
            r"\bstore->get\('[^']*'\) got error",
            r"Socket Timeout\b",
            r"\bConnection closed by (?:remote )?peer\b",
            r"\brecvValue failed",
            r"\bcommunicator was aborted\b",
            r"\bNCCL communicator[^\n]{0,30}abort(?!_)",
        ),
        anchors=(
            "gloo/transport",
            "diststoreerror",
            "distnetworkerror",
            "tcpstore",
            "got error",
            "socket timeout",
            "connection closed by",
            "recvvalue failed",
            "abort",
        ),
        why="this rank failed because another one was gone first; the other rank's lines tell why",
        example="RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [192.0.2.4]:40211",
        look_alike="[W socket.cpp:697] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 97)",
        level=Level.SYMPTOM,
        unless=r"\bretry|will retry|SSL|client side|\bHTTP\b|\[W[\d .:]*\S* socket\.cpp",
    ),
)
