"""A copy of the host's SGLang with a folder of diffs applied: it comes before the installed one in the engine.

The whole package is copied: a regular package is found at one place, so no single file of it can be shadowed, and a
link to the installed files would change a release with the next upgrade.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from . import durable, stack
from .errors import Refused
from .unified_diff import DiffError, apply_all

TREE = "tree"
RECORD = "tree.json"  # sha256 of every file of the copy, beside it in the release
_COMPILED = "__pycache__"


def size(python: str) -> tuple[int, int]:
    """Returns the bytes and files that a copy takes."""
    package = _package(python)
    files = [path for path in package.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files), len(files)


def outcome(python: str, diffs: dict[str, bytes]) -> dict[str, dict[str, str | None]]:
    """Returns sha256 ``before`` and ``after`` of every file that the diffs touch; None where there is no file.

    Raises Refused where there is no SGLang to copy, or a diff does not fit it.
    """
    return _hashes(python, _applied(python, diffs))


def check(python: str, spec: dict[str, Any], diffs: dict[str, bytes]) -> dict[str, bytes | None]:
    """Returns the touched files as they become; raises Refused for the first thing that is not as it was pinned.

    ``spec`` holds sglang (the version) and files (path to sha256 before and after), as a release's manifest does.
    """
    here = stack.version(python)
    if here != spec["sglang"]:
        raise Refused(
            f"SGLang {here} is on the host, the diffs are for {spec['sglang']}",
            "a diff is made against one version",
            "install that version, or make the diffs anew: ddops overlay pin DIR",
        )
    for path, pin in sorted(spec["files"].items()):
        have = _sha256(_read(python, path))
        if have != pin["before"]:
            raise Refused(
                f"{path} is not the file that the diffs were made for",
                f"sha256 {_short(have)}, pinned is {_short(pin['before'])}",
                "ddops overlay check; make the diffs anew, or put SGLang back",
            )
    done = _applied(python, diffs)
    if set(done) != set(spec["files"]):
        differ = sorted(set(done) ^ set(spec["files"]))
        raise Refused("the diffs do not touch the files that are pinned", ", ".join(differ), "ddops overlay pin DIR")
    for path, pins in sorted(_hashes(python, done).items()):
        if pins["after"] != spec["files"][path]["after"]:
            want = spec["files"][path]["after"]
            raise Refused(
                f"{path} does not become what was pinned",
                f"sha256 {_short(pins['after'])}, pinned is {_short(want)}",
                "ddops overlay pin DIR, after reading the diff",
            )
    return done


def build(release: Path, python: str, spec: dict[str, Any], names: list[str]) -> None:
    """Makes the copy in a release that is being stored; ``names`` are its diffs. Raises Refused as ``check``."""
    done = check(python, spec, {name: (release / name).read_bytes() for name in names})
    source, tree = _package(python), release / TREE
    # times are kept: what Python has compiled stays right for the files that are not touched
    shutil.copytree(source, tree / "sglang", copy_function=shutil.copy2)
    for path, text in done.items():
        target = tree / path
        if text is None:
            target.unlink()
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
        for compiled in target.parent.glob(f"{_COMPILED}/{target.stem}.*.pyc"):
            compiled.unlink()
    tree.chmod(0o755)
    for entry in tree.rglob("*"):
        entry.chmod(0o755 if entry.is_dir() else 0o644)
    durable.write_json(release / RECORD, _record(tree))
    os.sync()  # once, not for each of some thousand files


def problems(release: Path, spec: dict[str, Any]) -> list[str]:
    """Compares the copy with what was stored: every file of it, and those that the diffs touch with the manifest."""
    try:
        recorded = durable.read_json(release / RECORD) or {}
        have = _record(release / TREE)
    except (OSError, ValueError) as error:
        return [f"{release / TREE}: {error}"]
    want = {**recorded, **{path: pin["after"] for path, pin in spec["files"].items() if pin["after"]}}
    names = sorted(name for name in {*want, *have} if want.get(name) != have.get(name))
    return [f"{release / TREE / name} is not as it was stored" for name in names]


def _record(tree: Path) -> dict[str, str]:
    found = {}
    for path in sorted(tree.rglob("*")):
        if path.is_file() and path.parent.name != _COMPILED:
            found[path.relative_to(tree).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _package(python: str) -> Path:
    packages = stack.site_packages(python)
    package = packages / "sglang" if packages else None
    if packages is None or package is None or not package.is_dir():
        raise Refused(
            f"there is no package sglang to copy for {python}",
            "an editable installation has none in site-packages",
            "install SGLang as a wheel there",
        )
    if finder := next(iter(sorted(packages.glob("__editable__*sglang*"))), None):
        raise Refused(f"SGLang is installed editable: {finder}", "it would win over the copy", "install it as a wheel")
    return package


def _read(python: str, path: str) -> bytes | None:
    file = _package(python).parent / path
    return file.read_bytes() if file.is_file() else None


def _applied(python: str, diffs: dict[str, bytes]) -> dict[str, bytes | None]:
    try:
        return apply_all(diffs, lambda path: _read(python, path))
    except DiffError as error:
        raise Refused(
            "a diff does not fit the host's SGLang", str(error), "make it anew against the installed files"
        ) from None


def _hashes(python: str, done: dict[str, bytes | None]) -> dict[str, dict[str, str | None]]:
    return {path: {"before": _sha256(_read(python, path)), "after": _sha256(text)} for path, text in done.items()}


def _sha256(text: bytes | None) -> str | None:
    return None if text is None else hashlib.sha256(text).hexdigest()


def _short(digest: str | None) -> str:
    return digest[:12] if digest else "none: no such file"
