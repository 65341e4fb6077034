"""What a release stands on and does not carry: SGLang's environment, the files of model and drafter, the driver."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import re
from pathlib import Path
from typing import Any

from . import durable
from .errors import Refused
from .layout import Layout

_DRIVER = Path("/sys/module/nvidia/version")
_DRIVER_IN_A_CONTAINER = Path("/proc/driver/nvidia/version")  # where /sys has no modules
_WHOLE = 16 << 20  # files of a model up to this size are hashed, larger ones told by size and mtime


def site_packages(python: str) -> Path | None:
    """Returns the site-packages of an environment, found without running it."""
    found = sorted(Path(python).parent.parent.glob("lib/python3*/site-packages"))
    return found[-1] if found else None


def version(python: str) -> str:
    """Returns SGLang's version; raises Refused where the environment or SGLang in it is not there."""
    packages = site_packages(python)
    if packages is None or not Path(python).exists():
        raise Refused(
            f"there is no engine at {python}",
            "no such Python environment on the host",
            "check engine.python in the site file",
        )
    sglang = sorted(packages.glob("sglang-*.dist-info"))
    if not sglang:
        raise Refused(f"SGLang is not in the environment of {python}", str(packages), "install it there")
    return sglang[-1].name[len("sglang-") : -len(".dist-info")]


def describe(python: str, model: str, drafter: str | None) -> dict[str, Any]:
    """Returns the versions and digests that tell whether anything below a release has changed.

    Raises Refused where the environment, SGLang in it, or the model is not there. ``drafter`` is '' for none, and None
    for one that is not there: whoever needs it finds that out.
    """
    here, packages = version(python), site_packages(python)
    assert packages is not None  # noqa: S101 - its version was found there
    digest = hashlib.sha256()
    for record in sorted(packages.glob("*.dist-info/RECORD")):
        digest.update(record.parent.name.encode() + record.read_bytes())
    return {
        "sglang": here,
        "environment": digest.hexdigest(),
        "model": _model(Path(model)),
        "drafter": _drafter(drafter or ""),
        "driver": driver(),
    }


def driver() -> str | None:
    """Returns the version of NVIDIA's driver that the kernel has loaded, None where there is none; it cannot hang."""
    with contextlib.suppress(OSError):
        return _DRIVER.read_text().strip() or None
    with contextlib.suppress(OSError):
        found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", _DRIVER_IN_A_CONTAINER.read_text())
        return found[1] if found else None
    return None


def _model(folder: Path) -> str:
    if not folder.is_dir():
        raise Refused(f"the model is not at {folder}", "no such folder on the host", "check 'model' in the site file")
    return _digest(sorted(p for p in folder.iterdir() if p.is_file()))


def _drafter(named: str) -> str | None:
    if not named.startswith("/"):  # none, or one of a hand-made unit that SGLang fetches
        return named
    path = Path(named)
    if not path.exists():
        return None
    return _digest(sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path])


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        stat = path.stat()
        digest.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}".encode())
        if stat.st_size <= _WHOLE:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def damaged(layout: Layout, python: str) -> list[str]:
    """Compares SGLang's own files with the hashes of its RECORD; returns those that differ.

    A file that was right once is believed as long as its inode, size and change time stay.
    """
    remembered = durable.read_json(layout.root / "verified.json") or {}
    wrong, right = against_record(python, remembered)
    if right != remembered:
        durable.write_json(layout.root / "verified.json", right)
    return wrong


def against_record(python: str, remembered: dict[str, list[int]]) -> tuple[list[str], dict[str, list[int]]]:
    """Returns what differs from SGLang's RECORD, and the marks of the files that do not; writes nothing."""
    packages = site_packages(python)
    if packages is None:
        return [f"{python}: no environment"], remembered
    right: dict[str, list[int]] = {}
    wrong = []
    for record in packages.glob("sglang-*.dist-info/RECORD"):
        for name, want, *_ in csv.reader(record.read_text().splitlines()):
            if not want.startswith("sha256="):
                continue
            path = packages / name
            try:
                stat = path.stat()
                mark = [stat.st_ino, stat.st_size, stat.st_ctime_ns]
                if remembered.get(name) != mark and _sha256(path) != want[len("sha256=") :]:
                    wrong.append(f"{path} differs from SGLang's RECORD")
                    continue
            except OSError as error:
                wrong.append(f"{path}: {error.strerror}")
                continue
            right[name] = mark
    return wrong, right


def _sha256(path: Path) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
