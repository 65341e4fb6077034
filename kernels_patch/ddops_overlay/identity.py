"""Which overlay this is: the sha256 of its own modules, as they lie beside this one.

The same modules give the same value on every machine, and in the tool that renders them.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).parent


@functools.lru_cache(maxsize=1)
def sha256() -> str:
    """Read once: what is changed on the disk later does not run in this process."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py"), key=lambda p: p.relative_to(_PACKAGE.parent).as_posix()):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE.parent).as_posix()}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()
