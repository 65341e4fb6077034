"""The overlay as a release carries it: the plug-in's modules and the metadata by which SGLang finds it."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tomllib
from functools import cache
from typing import Any

from . import resources

_PACKAGE = "ddops_overlay"


@cache
def _files() -> dict[str, bytes]:
    """Returns the plug-in's files with a dist-info of their own, so that its entry points are found."""
    root = resources.folder("kernels_patch")
    project = _project()
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted((root / _PACKAGE).rglob("*.py"))}
    version = _version(found[f"{_PACKAGE}/__init__.py"].decode())
    info = f"{_PACKAGE}-{version}.dist-info"
    found[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n".encode()
    found[f"{info}/entry_points.txt"] = _entry_points(project["entry-points"]).encode()
    return found


def files() -> dict[str, bytes]:
    """Returns the plug-in's files by their names: its modules and its dist-info."""
    return dict(_files())


@cache
def sha256() -> str:
    """Returns the overlay's identity, which a running overlay finds in its own modules and reports."""
    digest = hashlib.sha256()
    for name, data in sorted(files().items()):
        if name.startswith(f"{_PACKAGE}/"):
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def algorithms() -> list[str]:
    """Returns the speculative algorithms that the overlay adds to SGLang's own."""
    return [str(name) for name in _toml()["tool"]["ddops-overlay"]["algorithms"]]


def pins() -> dict[str, Any]:
    """Returns what the overlay was written for: ``sglang``, its version, and ``sources``, dotted target to sha256.

    They are read, not imported: the overlay is for the engine's interpreter.
    """
    tree = ast.parse(files()[f"{_PACKAGE}/pins.py"])
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name):
                found[target.id] = ast.literal_eval(node.value)
    return {"sglang": found["SGLANG"], "sources": found["SOURCES"]}


def environment(settings: dict[str, Any]) -> dict[str, str]:
    """Returns the variables that switch the overlay on in one engine; its folder has to be on PYTHONPATH."""
    names = sorted({name for points in _project()["entry-points"].values() for name in points})
    return {
        "SGLANG_PLUGINS": ",".join(names),
        "DDOPS_OVERLAY": json.dumps(settings, sort_keys=True),
    }


def _project() -> dict[str, Any]:
    project: dict[str, Any] = _toml()["project"]
    return project


def _toml() -> dict[str, Any]:
    return tomllib.loads((resources.folder("kernels_patch") / "pyproject.toml").read_text())


def _version(text: str) -> str:
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if not found:
        raise ValueError(f"{_PACKAGE} names no __version__")
    return found[1]


def _entry_points(groups: dict[str, dict[str, str]]) -> str:
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items()), ""]
    return "\n".join(lines)
