"""The campaign: budgets with graphs on and off, the chain and plain decoding, each a server of its own.

Where it runs there is no systemd, so nothing is deployed; all else is ddops' own. Launch command and environment are
rendered from a profile, the gates and the measurement are the agent's, and what comes out is a study: `ddops study
OUT/study.jsonl` shows it, `--plot` draws it. Servers come one after another; each round has every cell once, so the
runs behind a figure are spread over the whole time. Raw logs are under OUT/logs.

    python -m benchmarks.device.campaign MODEL DRAFTER OUT [--changes benchmarks/device/h200.yaml] [--rounds 2]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from ddops import config, limits, overlay, render, resources
from ddops.agent import decode, measure
from ddops.agent.engine import Engine
from ddops.agent.errors import AgentError, GateFailed
from ddops.agent.gates import acceptance, lossless
from ddops.profile import Drafting, Profile
from ddops.site import EngineEntry, HostEntry, Site
from ddops.sweep import study as studies
from ddops.sweep.cells import Cell
from ddops.sweep.result import Result

PLAIN = Drafting(algorithm="PLAIN", brought_by="sglang", budgets=(1, 1), drafter=False, topk=None, arguments={})
CHAIN_BUDGET = 7


def main() -> int:
    args = _arguments()
    profile = config.merge(Profile, [config.layer(p) for p in _layers(args.changes)]).value
    here = HostEntry(address="local")
    engine = EngineEntry(python=sys.executable)
    site = Site(hosts={"here": here}, engine=engine, model=str(args.model), drafter=str(args.drafter))
    for name, data in overlay.files().items():
        path = args.out / "overlay" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (args.out / "logs").mkdir(exist_ok=True)
    cells = list(_cells(args, profile))
    asked = {k: getattr(args, k) for k in ("concurrency", "requests", "tokens", "repeats")}
    head = {
        "host": "here", "hostname": platform.node(), "service": profile.service, "profile": profile.name,
        "profile_sha256": None, "overlay": overlay.sha256(), "stack": {"sglang": profile.sglang}, "base": None,
        "question": {"cells": [c.as_json() for c in cells], "measure": asked, "drill": None},
    }  # fmt: skip
    known: list[dict[str, Any]] = []
    with studies.writing(args.out / "study.jsonl", head) as study:
        for number in range(args.rounds):
            for cell in cells:
                result = _try(args, profile, site, cell, asked, known, number)
                if was := study.results.get(cell):
                    result = _together(was, result)
                study.write("ended", result=result.as_json())
                sys.stderr.write(f"round {number + 1}, {cell}: {_brief(result)}\n")
        study.write("stopped", why="done")
    return 0


def _layers(changes: Path | None) -> list[Path]:
    lab = resources.folder("profiles") / "lab.yaml"
    return [lab, changes] if changes else [lab]


def _cells(args: argparse.Namespace, profile: Profile) -> Iterator[Cell]:
    running = profile.limits.max_running
    for graphs in args.graphs:
        yield Cell(1, graphs, "PLAIN", running)
        if args.chain:
            yield Cell(CHAIN_BUDGET, graphs, "DFLASH", running)
        for budget in args.budgets:
            yield Cell(budget, graphs, args.algorithm, running)


def _try(
    args: argparse.Namespace, profile: Profile, site: Site, cell: Cell, asked: dict[str, Any],
    known: list[dict[str, Any]], number: int,
) -> Result:  # fmt: skip
    """Serves one cell, judges and measures it; whatever goes wrong is its result."""
    gates = profile.gates.model_dump()
    log = args.out / "logs" / f"{number}-{cell.algorithm}-{cell.budget}-{'graphs' if cell.graphs else 'eager'}.log"
    began, step = time.monotonic(), "load"
    accepted: dict[str, float] = {}
    try:
        with _serving(args, profile, site, cell, log) as engine:
            step = "lossless"
            if not known and cell.algorithm == "PLAIN":
                known += lossless.record(engine, gates["lossless"], args.answer)
            lossless.lossless(engine, known, gates["lossless"], args.answer)
            if cell.algorithm != "PLAIN":
                step = "acceptance"
                accepted = acceptance.measure(engine, gates["acceptance"], args.answer)
            step = "measure"
            found = measure.measure(engine, asked, gates["throughput"]["prompts"], lambda: args.answer, lambda _: None)
            _ran_with_graphs(log, cell)
        return Result(cell, "good", measured=tuple(found), accepted=accepted, seconds=time.monotonic() - began)
    except AgentError as error:
        last = tuple(log.read_text(errors="replace").splitlines()[-40:])
        return Result(
            cell, "bad", error.what, error.why, step, lines=last, accepted=accepted, seconds=time.monotonic() - began
        )


@contextlib.contextmanager
def _serving(args: argparse.Namespace, profile: Profile, site: Site, cell: Cell, log: Path) -> Iterator[Engine]:
    """Starts what a release of the cell would start; raises GateFailed where it does not get ready."""
    drafting = PLAIN if cell.algorithm == "PLAIN" else next(
        d for d in profile.speculation if d.algorithm == cell.algorithm
    )  # fmt: skip
    topk = min(drafting.topk, cell.budget) if drafting.topk else None
    options = render.Options(limits.compute(profile, drafting, cell.budget, None), cell.graphs, drafting, topk)
    words = render.command(profile, site, profile.service, options, 1)
    if cell.algorithm == "PLAIN":
        words = _without(words, "--speculative-")
    rendered = render.environment(profile, site, profile.service, options, f"{profile.service}-0001")
    paths = [str(args.out / "overlay"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, **rendered, "PYTHONPATH": ":".join(paths)}
    environment |= {
        name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME", "TVM_FFI_CACHE_DIR") if name in os.environ
    }
    port = int(words[words.index("--port") + 1])
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, env=environment, start_new_session=True)
    engine = Engine("127.0.0.1", port)
    try:
        end = time.monotonic() + args.load
        while not engine.healthy(5):
            if process.poll() is not None:
                raise GateFailed("the server ended", f"exit code {process.returncode}")
            if time.monotonic() > end:
                raise GateFailed(f"not ready within {args.load:g} s")
            time.sleep(0.5)
        yield engine
        if process.poll() is not None:
            raise GateFailed("the server ended", f"exit code {process.returncode}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _without(words: list[str], prefix: str) -> list[str]:
    kept, skip = [], False
    for word in words:
        if word.startswith("--"):
            skip = word.startswith(prefix)
        if not skip:
            kept.append(word)
    return kept


def _ran_with_graphs(log: Path, cell: Cell) -> None:
    """Raises GateFailed where a decode line says that graphs ran otherwise than asked for: none is read as silence."""
    said = {
        decode.figures(line)["graphs"]
        for line in log.read_text(errors="replace").splitlines()
        if decode.is_decode(line)
    }
    said.discard(None)
    if said and said != {cell.graphs}:
        raise GateFailed(f"graphs were to be {cell.graphs}, the decode lines say {sorted(map(str, said))}")


def _together(was: Result, now: Result) -> Result:
    """Returns a cell's result over two rounds: all runs of both; a failure in any of them is the result."""
    if was.status != "good" or now.status != "good":
        return was if was.status != "good" else now
    rows = []
    for first, second in zip(was.measured, now.measured, strict=True):
        runs = [*first["tok_s_runs"], *second["tok_s_runs"]]
        mean = {k: _middle(first[k], second[k]) for k in ("stream_tok_s", "ttft_ms", "accept_length")}
        rows.append({**second, **mean, "tok_s_runs": runs, "tok_s": round(median(runs), 3),
                     "failed": first["failed"] + second["failed"]})  # fmt: skip
    return replace(now, measured=tuple(rows), seconds=was.seconds + now.seconds)


def _middle(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else round((first + second) / 2, 3)


def _brief(result: Result) -> str:
    if result.status != "good":
        return f"{result.status} at {result.step}: {result.reason}: {result.why}"
    return (
        ", ".join(f"{m['tok_s']} tok/s at {m['concurrency']}" for m in result.measured)
        + f", accepted {result.accepted}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("drafter", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--changes", type=Path, help="what differs from the lab's profile")
    parser.add_argument("--algorithm", default="DDTREE")
    parser.add_argument("--budgets", type=int, nargs="*", default=[8, 12, 16, 24, 32, 64])
    parser.add_argument("--graphs", choices=["on", "off", "both"], default="both")
    parser.add_argument("--no-chain", dest="chain", action="store_false")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16])
    for name, default in (("rounds", 1), ("requests", 16), ("tokens", 256), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--load", type=float, default=300, help="seconds for a server to get ready")
    parser.add_argument("--answer", type=float, default=120, help="seconds for one answer")
    args = parser.parse_args()
    args.graphs = {"on": [True], "off": [False], "both": [True, False]}[args.graphs]
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    return args


if __name__ == "__main__":
    sys.exit(main())
