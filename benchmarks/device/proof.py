"""The whole proof of DDTREE on one GPU, or the named parts of it.

    python proof.py MODEL DRAFTER OUT [NAME ...]       without a NAME all of them, about 25 minutes on 16 cores

It writes the plug-ins' folder itself; SGLang must be importable. What takes time runs alone, the rest two at a time.
A part's output is OUT/NAME.txt, its servers' logs are under OUT/NAME; a line on stdout tells of its end. Exits 1 where
one of them did.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests/overlay"))

import engine  # noqa: E402

BUDGETS = "8,12,16,32,64"
LANES = 2

Command = list[str]


def parts(model: str, drafter: str, out: Path) -> tuple[dict[str, list[Command]], dict[str, list[Command]]]:
    """What may run side by side, and what must run alone: the commands of each part, one after another."""

    def script(name: str, *arguments: str) -> Command:
        return [sys.executable, name, *arguments]

    def served(name: str, part: str, *arguments: str) -> Command:
        return script(name, model, drafter, str(out / part), *arguments)

    def sanitized(tool: str) -> Command:
        return ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", *script("kernels.py", "check", "quick")]

    mla = out / "mla-models"
    side_by_side = {
        "check": [script("kernels.py", "check")],
        "hazards": [served("hazards.py", "hazards", "16")],
        "racecheck": [sanitized("racecheck")],
        "memcheck": [sanitized("memcheck")],
        "fp16": [served("compare.py", "fp16", BUDGETS, "--dtype", "float16")],
        "mla": [
            # no time to measure anything: it leaves the models
            script("steps.py", "deepseek-v2", str(mla), model, "0"),
            script(
                *("compare.py", f"{mla}/models/target", f"{mla}/models/drafter-8", str(out / "mla"), "8,32"),
                *("--speculative-draft-load-format", "dummy"),
            ),
        ],
        "bf16": [served("compare.py", "bf16", BUDGETS)],
        "server-memcheck": [served("sanitize.py", "server-memcheck", "16", "330")],
        "ramp": [served("ramp.py", "ramp", "240", "32")],
        "sampling": [served("sampling.py", "sampling", "16", "3000")],
        "window": [
            served("compare.py", "window", "16", "--dtype", "float16", "--speculative-draft-window-size", "32"),
        ],
    }
    alone = {
        "time": [script("kernels.py", "time")],
        "attention": [script("kernels.py", "attention")],
        "steps-8b": [script("steps.py", "llama-8b", str(out / "steps-8b"), model, "540")],
        "steps-mla": [script("steps.py", "deepseek-v2", str(out / "steps-mla"), model, "330")],
    }
    return side_by_side, alone


def write_plugins(folder: Path) -> None:
    """The overlay, and the plug-ins of tests and measurements."""
    shutil.rmtree(folder, ignore_errors=True)
    planted = (ROOT / "tests/overlay/planted").glob("planted_*.py")
    engine.folder_for_python(folder, *planted, *(HERE / "timing").glob("*.py"))


def main() -> int:
    model, drafter, out, *names = sys.argv[1:]
    folder = Path(out).resolve()
    write_plugins(folder / "plugins")
    side_by_side, alone = parts(model, drafter, folder)
    if unknown := set(names) - side_by_side.keys() - alone.keys():
        sys.exit(f"no part: {', '.join(sorted(unknown))}; there are {', '.join((*side_by_side, *alone))}")
    numbers = itertools.count()

    def run(name: str, commands: list[Command]) -> bool:
        began, first_port = time.monotonic(), 20000 + 100 * next(numbers)
        with (folder / f"{name}.txt").open("wb") as log:
            paths = [str(folder / "plugins"), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment = os.environ | {"PYTHONPATH": ":".join(paths), "FIRST_PORT": str(first_port)}
            if name == "memcheck":
                # the caching allocator's segments hide what is read past a tensor's end
                environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
            codes = [
                subprocess.run(command, cwd=HERE, env=environment, stdout=log, stderr=log, check=False).returncode
                for command in commands
            ]
        print(f"{name}: {'ok' if not any(codes) else 'FAILED'}, {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
        return not any(codes)

    def wanted(of: dict[str, list[Command]]) -> list[tuple[str, list[Command]]]:
        return [(name, commands) for name, commands in of.items() if not names or name in names]

    with ThreadPoolExecutor(LANES) as pool:
        passed = list(pool.map(lambda part: run(*part), wanted(side_by_side)))
    passed += [run(name, commands) for name, commands in wanted(alone)]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
