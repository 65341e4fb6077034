"""The files that ddops carries: templates, profiles, the overlay and the agent."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources give the same bytes
_MAIN = b"import sys\nfrom agent.__main__ import main\n\nsys.exit(main(sys.argv[1:]))\n"


def folder(name: str) -> Path:
    """Returns ``templates``, ``profiles`` or ``kernels_patch``, from the wheel or the checkout."""
    inside = _PACKAGE / "_data" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


@cache
def agent() -> bytes:
    """Returns the agent as a ``.pyz``: the standard library is all that it needs on the host.

    Nothing in it is compressed: every command needs its hash, and few have to send it.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), _MAIN)
        for path in sorted((_PACKAGE / "agent").rglob("*.py")):
            info = zipfile.ZipInfo(f"agent/{path.relative_to(_PACKAGE / 'agent').as_posix()}", _EPOCH)
            archive.writestr(info, path.read_bytes())
    return packed.getvalue()
