"""Imports go downward only, and the command line stays light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import ddops

ROOT = Path(ddops.__file__).parent


def imports(path: Path) -> set[str]:
    """Returns the modules that a file imports, relative ones with their dots."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


def test_the_agent_imports_the_standard_library_alone() -> None:
    for path in (ROOT / "agent").rglob("*.py"):
        depth = len(path.relative_to(ROOT / "agent").parts)
        for name in imports(path):
            if name.startswith("."):
                assert len(name) - len(name.lstrip(".")) <= depth, f"{path} reaches above the agent"
            else:
                assert name.split(".")[0] in sys.stdlib_module_names, f"{path} imports {name}"


def test_operations_do_not_import_the_command_line() -> None:
    for path in ROOT.rglob("*.py"):
        if "cli" not in path.relative_to(ROOT).parts and path.name != "__main__.py":
            assert not any("cli" in name.split(".") for name in imports(path)), path


def test_kernels_patch_knows_nothing_of_ddops() -> None:
    for path in (ROOT.parent / "kernels_patch").rglob("*.py"):
        assert not any(name.split(".")[0] == "ddops" for name in imports(path)), path


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, json\nfrom ddops.cli.app import run\nrun(['deploy', '-h'])\n"
        "sys.stderr.write(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stderr))
    assert "typer" in loaded
    for heavy in ("torch", "sglang", "fabric", "paramiko", "jinja2", "httpx", "yaml"):
        assert heavy not in loaded, heavy
