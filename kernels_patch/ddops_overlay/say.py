"""One JSON line on stdout, in one write: ranks share the stream, and a line in two writes can be cut."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def say(key: str, value: dict[str, Any]) -> None:
    sys.stdout.flush()
    line = json.dumps({key: value}, separators=(",", ":")) + "\n"
    os.write(sys.stdout.fileno(), line.encode())
