"""Whether the overlay fits the host's SGLang: the source of all that it hooks, without importing any of it."""

from __future__ import annotations

import ast
import hashlib
import inspect
from pathlib import Path
from typing import Any

from .. import stack
from . import Finding, absent, bad, ok


def check(python: str, pins: dict[str, Any]) -> list[Finding]:
    """Compares SGLang's version and each pinned source (``sources``: dotted target to sha256) with the host's."""
    packages = stack.site_packages(python)
    if packages is None or not (packages / "sglang").is_dir():
        return [absent("overlay fit", "there is no SGLang to look at")]
    wrong = []
    for target, want in sorted(pins["sources"].items()):
        try:
            source = source_of(packages, target)
        except (OSError, SyntaxError, ValueError) as error:
            wrong.append(f"{target}: {error}")
            continue
        if source is None:
            wrong.append(f"{target} is not there")
        elif hashlib.sha256(source.encode()).hexdigest() != want:
            wrong.append(f"{target} is another")
    if wrong:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        why = f"the overlay is pinned to SGLang {pins['sglang']}; its engine would end at its start"
        return [bad("overlay fit", "; ".join(wrong[:3]) + more, why, f"install sglang=={pins['sglang']} there")]
    return [ok("overlay fit", f"all {len(pins['sources'])} functions that it hooks are those it was written for")]


def source_of(packages: Path, target: str) -> str | None:
    """Returns the text of a function or class as ``inspect.getsource`` would, None where it is not there."""
    parts = target.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        path = packages.joinpath(*parts[:cut])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return _in_file(file, parts[cut:])
    return None


def _in_file(file: Path, names: list[str]) -> str | None:
    text = file.read_text()
    body: list[ast.stmt] = ast.parse(text).body
    line = 0
    for name in names:
        # of two with one name the later one is what stands there
        node = next((n for n in reversed(body) if getattr(n, "name", None) == name), None)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return None
        line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        body = node.body
    return "".join(inspect.getblock(text.splitlines(keepends=True)[line - 1 :]))
