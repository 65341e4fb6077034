"""Whether what a site file says of this host is there. Nothing here changes anything."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

from . import stack


def check(about: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns a finding for each part: ``name``, ``good``, ``text``.

    ``about`` holds python, model, drafter (or None), secrets, and the user that the engine runs as (None: one that
    systemd makes, which reads only what everybody may).
    """
    found = [_python(about["python"]), _folder("model", about["model"])]
    if about["drafter"]:
        found.append(_folder("drafter", about["drafter"]))
    if about["user"] is None:
        paths = [about["python"], *(Path(about[name]) / "config.json" for name in ("model", "drafter") if about[name])]
        found += [_for_everybody(Path(path)) for path in paths if Path(path).exists()]
    found += [_secret(path) for path in about["secrets"]]
    found.append(_finding("ss", bool(shutil.which("ss")), shutil.which("ss") or "not here: apt-get install iproute2"))
    return [entry for entry in found if entry]


def _finding(name: str, good: bool, text: str) -> dict[str, Any]:
    return {"name": name, "good": good, "text": text}


def _python(python: str) -> dict[str, Any]:
    packages = stack.site_packages(python)
    if not Path(python).exists() or packages is None:
        return _finding("engine.python", False, f"{python} is no Python environment on this host")
    versions = sorted(path.name for path in packages.glob("sglang-*.dist-info"))
    if not versions:
        return _finding("engine.python", False, f"SGLang is not in the environment of {python}")
    return _finding("engine.python", True, f"SGLang {versions[-1][len('sglang-') : -len('.dist-info')]} ({python})")


def _folder(name: str, folder: str) -> dict[str, Any]:
    if not Path(folder).is_dir():
        return _finding(name, False, f"{folder} is no folder on this host")
    if not (Path(folder) / "config.json").is_file():
        return _finding(name, False, f"{folder} holds no config.json")
    size = sum(path.stat().st_size for path in Path(folder).iterdir() if path.is_file())
    return _finding(name, True, f"{folder}, {size / 1e9:.1f} GB")


def _for_everybody(path: Path) -> dict[str, Any]:
    """Looks for the first folder on the way, or the file, that other users may not enter or read."""
    real = path.resolve()
    for folder in reversed(real.parents):
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return _finding("permissions", False, f"{folder} is closed to the engine's user: {path} cannot be read")
    if not os.stat(real).st_mode & stat.S_IROTH:
        return _finding("permissions", False, f"{real} cannot be read by the engine's user")
    return {}


def _secret(path: str) -> dict[str, Any]:
    try:
        found = os.stat(path)
    except OSError as error:
        return _finding("secrets", False, f"{path}: {error.strerror}")
    if found.st_uid != 0 or found.st_mode & 0o077:
        return _finding("secrets", False, f"{path} is not root's alone: chown root, chmod 600")
    return _finding("secrets", True, path)
