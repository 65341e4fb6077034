"""The campaign: budgets with graphs on and off, the chain and plain decoding, measured in turn on one GPU.

Where it runs there is no systemd, so nothing is deployed; all else is ddops' own. Launch command and environment are
rendered from a profile (launch.py), the gates and the measurement are the agent's, and what comes out is a study:
`ddops study OUT/study.jsonl` shows it, `--plot` draws it. All servers are up from the beginning and only one is asked
at a time; each round measures every cell once, with questions of its own, so that the runs behind a figure are spread
over the whole time. Raw logs are under OUT/logs.

    python -m benchmarks.device.campaign MODEL DRAFTER OUT [--changes benchmarks/device/h200.yaml] [--rounds 3]
"""

from __future__ import annotations

import argparse
import platform
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from ddops import config, overlay, resources
from ddops.agent import decode, measure
from ddops.agent.errors import AgentError, GateFailed
from ddops.agent.gates import acceptance, lossless
from ddops.profile import Profile
from ddops.sweep import study as studies
from ddops.sweep.cells import Cell
from ddops.sweep.result import Result

from .launch import Launch, Server, served

CHAIN_BUDGET = 7


def main() -> int:
    """Runs the campaign; returns 1 where a cell is not good."""
    args = _arguments()
    # so that its servers end with it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    profile = config.merge(Profile, [config.layer(p) for p in _layers(args.changes)]).value
    cells = list(_cells(args, profile))
    asked = {k: getattr(args, k) for k in ("concurrency", "requests", "tokens", "repeats")}
    head = {
        "host": "here", "hostname": platform.node(), "service": profile.service, "profile": profile.name,
        "profile_sha256": None, "overlay": overlay.sha256(), "stack": {"sglang": profile.sglang}, "base": None,
        "question": {"cells": [c.as_json() for c in cells], "measure": asked, "drill": None},
    }  # fmt: skip
    launch = Launch(profile, args.model, args.drafter, args.out / "overlay")
    with (
        studies.writing(args.out / "study.jsonl", head) as study,
        served(launch, cells, args.out / "logs") as servers,
    ):
        _judge(args, profile, servers, study)
        why = _measure(args, profile, servers, asked, study)
        study.write("stopped", why=why)
    return int(any(result.status != "good" for result in study.found))


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


def _judge(args: argparse.Namespace, profile: Profile, servers: list[Server], study: studies.Study) -> None:
    """Waits for each server and puts it through the gates; writes what failed, and what was accepted."""
    gates = profile.gates.model_dump()
    known: list[dict[str, Any]] = []
    end = time.monotonic() + args.load
    for server in servers:
        began, step = time.monotonic(), "load"
        accepted: dict[str, float] = {}
        try:
            server.ready(end)
            step = "lossless"
            if not known:
                if server.cell.algorithm != "PLAIN":
                    raise GateFailed("there is nothing to compare with", "no plain server got ready")
                known += lossless.record(server.engine, gates["lossless"], args.answer)
            lossless.lossless(server.engine, known, gates["lossless"], args.answer)
            if server.cell.algorithm != "PLAIN":
                step = "acceptance"
                accepted = acceptance.measure(server.engine, gates["acceptance"], args.answer)
            result = Result(server.cell, "good", accepted=accepted, seconds=time.monotonic() - began)
        except AgentError as error:
            result = _failed(server, error, step, Result(server.cell, "good", accepted=accepted))
        study.write("ended", result=result.as_json())
        _say(f"{server.cell}: {_brief(result)}")


def _measure(
    args: argparse.Namespace, profile: Profile, servers: list[Server], asked: dict[str, Any], study: studies.Study
) -> str:
    """Measures round after round what is good; returns why it stopped."""
    for number in range(max(args.rounds, args.eager_rounds)):
        prompts = [f"({number + 1}) {prompt}" for prompt in profile.gates.throughput.prompts]
        for server in servers:
            was = study.results[server.cell]
            if was.status != "good" or number >= (args.rounds if server.cell.graphs else args.eager_rounds):
                continue
            if time.monotonic() > args.until:
                return "out of time"
            began = time.monotonic()
            try:
                found = measure.measure(server.engine, asked, prompts, lambda: args.answer, lambda _: None)
                server.alive()
                _ran_with_graphs(server)
                result = _together(was, tuple(found), time.monotonic() - began)
            except AgentError as error:
                result = _failed(server, error, "measure", was)
            study.write("ended", result=result.as_json())
            _say(f"round {number + 1}, {server.cell}: {_brief(result)}")
    return "done"


def _failed(server: Server, error: AgentError, step: str, was: Result) -> Result:
    last = tuple(server.log.read_text(errors="replace").splitlines()[-40:])
    return replace(was, status="bad", reason=error.what, why=error.why, step=step, lines=last)


def _ran_with_graphs(server: Server) -> None:
    """Raises GateFailed where a decode line says that graphs ran otherwise than asked for: none is read as silence."""
    said = {
        decode.figures(line)["graphs"]
        for line in server.log.read_text(errors="replace").splitlines()
        if decode.is_decode(line)
    }
    said.discard(None)
    if said and said != {server.cell.graphs}:
        raise GateFailed(
            f"graphs were to be {server.cell.graphs}", f"the decode lines say {sorted(map(str, said))}"
        )  # fmt: skip


def _together(was: Result, found: tuple[dict[str, Any], ...], seconds: float) -> Result:
    """Returns a cell's result with a round more: tok_s over all runs, the rest the mean of the rounds."""
    rounds = len(was.measured[0]["tok_s_runs"]) // len(found[0]["tok_s_runs"]) if was.measured else 0
    rows = []
    for first, second in zip(was.measured or found, found, strict=True):
        if not rounds:
            rows.append(second)
            continue
        runs = [*first["tok_s_runs"], *second["tok_s_runs"]]
        mean = {k: _mean(first[k], second[k], rounds) for k in ("stream_tok_s", "ttft_ms", "accept_length")}
        middle = median(run for run in runs if run is not None)
        rows.append({**second, **mean, "tok_s_runs": runs, "tok_s": round(middle, 3),
                     "failed": first["failed"] + second["failed"]})  # fmt: skip
    status = "bad" if any(row["failed"] for row in rows) else "good"
    return replace(was, status=status, measured=tuple(rows), seconds=was.seconds + seconds)


def _mean(before: float | None, now: float | None, rounds: int) -> float | None:
    return None if before is None or now is None else round((before * rounds + now) / (rounds + 1), 3)


def _brief(result: Result) -> str:
    if result.status != "good":
        return f"{result.status} at {result.step}: {result.reason}: {result.why}"
    told = ", ".join(f"{m['tok_s_runs'][-1]} tok/s at {m['concurrency']}" for m in result.measured)
    return told or f"passed, accepted {result.accepted}"


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


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
    for name, default in (("rounds", 3), ("eager-rounds", 1), ("requests", 16), ("tokens", 128), ("repeats", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--load", type=float, default=300, help="seconds for all servers to get ready")
    parser.add_argument("--answer", type=float, default=120, help="seconds for one answer")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no measurement after so many")
    args = parser.parse_args()
    args.until = time.monotonic() + 60 * args.minutes
    args.graphs = {"on": [True], "off": [False], "both": [True, False]}[args.graphs]
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    return args


if __name__ == "__main__":
    sys.exit(main())
