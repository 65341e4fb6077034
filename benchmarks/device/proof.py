"""The whole proof of DDTREE on one GPU, or the named parts of it.

    python proof.py MODEL DRAFTER OUT [NAME ...]       without a NAME all of them, about 25 minutes on 16 cores

It writes the plug-ins' folder itself; SGLang must be importable. What measures time runs alone; before it the scripts
that start servers run two at a time, and beside them what checks kernels. A part's output is OUT/NAME.txt, its servers'
logs are under OUT/NAME; a line on stdout tells of its end. Exits 1 where one of them did.
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
SERVING = 2  # scripts at a time: thirty servers that start at once take minutes

Command = list[str]
Parts = dict[str, list[Command]]


def parts(model: str, drafter: str, out: Path) -> tuple[Parts, Parts, Parts]:
    """The commands of each part, one after another: what checks kernels, what serves, and what must run alone."""

    def script(name: str, *arguments: str) -> Command:
        return [sys.executable, name, *arguments]

    def served(name: str, part: str, *arguments: str) -> Command:
        return script(name, model, drafter, str(out / part), *arguments)

    def both(action: str, *arguments: str, before: Command | None = None) -> list[Command]:
        return [(before or []) + script(name, action, *arguments) for name in ("kernels.py", "attention.py")]

    def sanitized(tool: str) -> list[Command]:
        return both("check", "quick", before=["compute-sanitizer", "--tool", tool, "--error-exitcode", "1"])

    def steps(name: str, shape: str, seconds: int, context: int, *servers: str) -> Command:
        return script("steps.py", shape, str(out / name), model, str(seconds), str(context), *servers)

    at_3500 = ("plain", "tree-9", "tree-17", "chain-17")
    mla = out / "mla-models/models"
    kernels = {"check": both("check"), "racecheck": sanitized("racecheck"), "memcheck": sanitized("memcheck")}
    # the long ones first: together they end sooner so
    serving = {
        "ramp": [served("ramp.py", "ramp", "240", "32")],
        "fp16": [served("compare.py", "fp16", BUDGETS, "--dtype", "float16")],
        "bf16": [served("compare.py", "bf16", BUDGETS)],
        "mla": [
            # no time to measure anything: it leaves the models
            steps("mla-models", "deepseek-v2", 0, 200),
            script(
                *("compare.py", str(mla / "target"), str(mla / "drafter-8"), str(out / "mla"), "8,32"),
                *("--speculative-draft-load-format", "dummy"),
            ),
        ],
        "hazards": [served("hazards.py", "hazards", "16")],
        "sampling": [served("sampling.py", "sampling", "16", "3000")],
        "window": [
            served("compare.py", "window", "16", "--dtype", "float16", "--speculative-draft-window-size", "32"),
        ],
        "server-memcheck": [served("sanitize.py", "server-memcheck", "16", "330")],
    }
    alone = {
        "time": both("time"),
        "steps-8b": [steps("steps-8b", "llama-8b", 540, 200)],
        "steps-mla": [steps("steps-mla", "deepseek-v2", 330, 200)],
        "long-8b": [steps("long-8b", "llama-8b", 200, 3500, *at_3500)],
        "long-mla": [steps("long-mla", "deepseek-v2", 200, 3500, *at_3500)],
    }
    return kernels, serving, alone


def write_plugins(folder: Path) -> None:
    """The overlay, and the plug-ins of tests and measurements."""
    shutil.rmtree(folder, ignore_errors=True)
    planted = (ROOT / "tests/overlay/planted").glob("planted_*.py")
    engine.folder_for_python(folder, *planted, *(HERE / "timing").glob("*.py"))


def main() -> int:
    model, drafter, out, *names = sys.argv[1:]
    folder = Path(out).resolve()
    write_plugins(folder / "plugins")
    kernels, serving, alone = parts(model, drafter, folder)
    known = (*kernels, *serving, *alone)
    if unknown := set(names) - set(known):
        sys.exit(f"no part: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
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

    def wanted(of: Parts) -> list[tuple[str, list[Command]]]:
        return [(name, commands) for name, commands in of.items() if not names or name in names]

    with ThreadPoolExecutor(1) as beside, ThreadPoolExecutor(SERVING) as pool:
        running = [beside.submit(run, *part) for part in wanted(kernels)]
        running += [pool.submit(run, *part) for part in wanted(serving)]
    passed = [part.result() for part in running] + [run(*part) for part in wanted(alone)]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
