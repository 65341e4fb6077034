"""Imports go downward only, and the command line stays light."""

from __future__ import annotations

import ast
import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import ddops
from ddops.agent import serve
from ddops.agent.errors import AgentError
from ddops.cli import app

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


def test_a_plan_and_an_operation_wait_for_no_more_of_the_agent_than_they_need() -> None:
    code = (
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "import agent.__main__, agent.serve, agent.plan, agent.requests, agent.patched_tree\nprint(*sys.modules)"
    )
    loaded = subprocess.run(["/usr/bin/python3", "-IS", "-c", code], capture_output=True, text=True, check=True)
    assert "agent.systemd" in loaded.stdout.split()
    for heavy in ("agent.faults", "agent.service", "agent.restore", "http.client", "sqlite3", "tarfile"):
        assert heavy not in loaded.stdout.split(), heavy


@pytest.mark.parametrize("name", serve.CALLS)
def test_every_call_finds_its_function(name: str) -> None:
    with contextlib.suppress(KeyError, AgentError):  # without its arguments
        next(serve.CALLS[name]({}, b""))


def test_a_verb_is_the_same_alone_as_beside_the_others() -> None:
    whole = app.command().commands
    verbs = set(whole) - {"version", "help"} - set(app._GROUPS)
    assert "deploy" in verbs
    for verb in verbs:
        alone = typer.main.get_command(app.application([verb, "-h"])).commands  # type: ignore[attr-defined]
        assert set(alone) == {verb, "version"}
        assert seen_of(alone[verb]) == seen_of(whole[verb])


def seen_of(command: Any) -> list[Any]:
    return [command.help, *((p.name, p.opts, p.required, p.default, getattr(p, "help", "")) for p in command.params)]
