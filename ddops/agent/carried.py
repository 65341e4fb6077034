"""What two releases have in common need not travel again: the overlay, which most deploys leave as it was."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

FOLDER = "overlay/"


def digest(files: dict[str, str]) -> str:
    """Returns what the overlay among a manifest's files (name to sha256) is told by, '' where it has none."""
    own = sorted((name, sha256) for name, sha256 in files.items() if name.startswith(FOLDER))
    return hashlib.sha256(json.dumps(own).encode()).hexdigest() if own else ""


def whole(release: Path, files: dict[str, str]) -> bool:
    """Says whether a release has its overlay's files as its manifest says."""
    try:
        return all(
            hashlib.sha256((release / name).read_bytes()).hexdigest() == sha256
            for name, sha256 in files.items()
            if name.startswith(FOLDER)
        )
    except OSError:
        return False


def copies(release: Path, files: dict[str, str]) -> dict[str, bytes]:
    """Returns a release's overlay by the names of the files; raises OSError where one is missing."""
    return {name: (release / name).read_bytes() for name in files if name.startswith(FOLDER)}
