"""Stop the process for a reason.

SGLang logs and swallows every exception of a plug-in and starts without it, so raising is not
enough. The main process loads its plug-ins before it spawns any other, and ends here.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

# sysexits.h EX_CONFIG; systemd shows it as 78/CONFIG
EXIT_STATUS = 78


def refuse(reason: str) -> NoReturn:
    line = " ".join(reason.split())
    sys.stdout.flush()
    sys.stderr.write(f"ddops_overlay refuses to start: {line}\n")
    sys.stderr.flush()
    os._exit(EXIT_STATUS)
