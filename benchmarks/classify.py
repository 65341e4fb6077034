"""Entries a second of the classifier, against ``journalctl -o json --all`` on a journal of as many entries.

    python benchmarks/classify.py [--entries 1000000] [--runs 3] [--journal FOLDER]

A synthetic corpus of what a healthy engine writes, as journalctl prints it. The classifier reads the JSON
and judges every entry, on one core. With a folder of journal files of as many entries, journalctl itself
is timed too, in turn with it; times are CPU seconds. Such a folder is made by

    python benchmarks/classify.py --export | /lib/systemd/systemd-journal-remote -o FOLDER/x.journal -
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path

from ddops.agent.faults import Detector, Scope, classify
from ddops.agent.faults.importing import entries

UNIT = "lab-0001.service"
BLOCK = 50_000
FIELDS = {
    "_TRANSPORT": "stdout", "PRIORITY": "6", "SYSLOG_FACILITY": "3", "SYSLOG_IDENTIFIER": "lab", "_UID": "998",
    "_GID": "998", "_COMM": "python3", "_EXE": "/usr/bin/python3.12", "_CAP_EFFECTIVE": "0", "_SYSTEMD_UNIT": UNIT,
    "_CMDLINE": "/opt/venv/bin/python3 -m sglang.launch_server --model-path /srv/models/m --tp 8 --host 127.0.0.1",
    "_SYSTEMD_CGROUP": f"/lab.slice/{UNIT}", "_SYSTEMD_SLICE": "lab.slice", "_HOSTNAME": "gpu1",
    "_RUNTIME_SCOPE": "system",
    "_SYSTEMD_INVOCATION_ID": "0f" * 16, "_BOOT_ID": "1a" * 16, "_MACHINE_ID": "2b" * 16, "_STREAM_ID": "3c" * 16,
    "_SELINUX_CONTEXT": "unconfined\n",
}  # fmt: skip


def lines() -> Iterator[str]:
    """Yields what a healthy engine writes, for ever."""
    number = 0
    while True:
        number += 1
        stamp = f"[2026-03-01 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02} TP0]"
        if number % 50 == 0:
            address = f"192.0.2.{number % 250}:{number % 60000}"
            yield f'{stamp[:-5]}] INFO:     {address} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        elif number % 10 == 0:
            yield (
                f"{stamp} Prefill batch, #new-seq: {number % 7}, #new-token: {number % 8192}, "
                f"#cached-token: {number % 999}, token usage: 0.{number % 100:02}, #running-req: {number % 60}, "
                f"#queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): {number % 90000}.11"
            )
        else:
            yield (
                f"{stamp} Decode batch, #running-req: {1 + number % 60}, #token: {number % 300000}, token usage: "
                f"0.{number % 100:02}, accept len: {2 + number % 97 / 97:.2f}, accept rate: 0.{number % 100:02}, "
                f"cuda graph: True, gen throughput (token/s): {number % 9000}.25, #queue-req: 0"
            )


def as_json(count: int) -> Iterator[bytes]:
    """Yields entries as ``journalctl -o json --all`` prints them."""
    for number, line in zip(range(count), lines(), strict=False):
        own = {
            "__CURSOR": f"s=4d;i={number:x};b=1a;m={number * 9:x};t={number:x};x=5e",
            "__REALTIME_TIMESTAMP": str(1_772_000_000_000_000 + number * 1000),
            "__MONOTONIC_TIMESTAMP": str(number * 1000),
            "_PID": "4121",
            "MESSAGE": line,
        }
        yield json.dumps({**own, **FIELDS}).encode() + b"\n"


def as_export(count: int) -> Iterator[bytes]:
    """Yields the same entries in the journal's export format."""
    for number, line in zip(range(count), lines(), strict=False):
        stamp = 1_772_000_000_000_000 + number * 1000
        plain = "".join(f"{k}={v.strip()}\n" for k, v in FIELDS.items())
        times = f"__REALTIME_TIMESTAMP={stamp}\n__MONOTONIC_TIMESTAMP={number * 1000 + 1}\n"
        yield f"{times}{plain}_PID=4121\nMESSAGE={line}\n\n".encode()


def seconds(runs: int, *works: Callable[[], object]) -> list[list[float]]:
    """Returns the CPU seconds of each work's runs, those of children included; they take turns."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(runs):
        for work, of in zip(works, taken, strict=True):
            began = sum(os.times()[:4])
            work()
            of.append(sum(os.times()[:4]) - began)
    return taken


def told(name: str, count: int, taken: list[float]) -> None:
    middle, least, worst = statistics.median(taken), min(taken), max(taken)
    sys.stdout.write(f"{name:30} {middle:7.2f} s ({least:.2f} to {worst:.2f})   {count / middle:8.0f} entries/s\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--journal", type=Path, help="a folder with journal files of as many entries")
    parser.add_argument("--export", action="store_true", help="print the entries in the export format and end")
    chosen = parser.parse_args()
    if chosen.export:
        for entry in as_export(chosen.entries):
            sys.stdout.buffer.write(entry)
        return
    scope = Scope(frozenset({UNIT}))
    block = list(as_json(min(chosen.entries, BLOCK)))
    blocks = chosen.entries // len(block)

    def judge() -> None:
        found = classify(entries(chain.from_iterable(repeat(block, blocks))), Detector("trial", scope))
        if found:
            sys.exit(f"a healthy journal gave {found[0].record()}")

    read = list(entries(block))

    def judge_in_memory() -> None:
        classify(read, Detector("trial", scope))

    names = ["classify, from JSON", "classify, entries in memory"]
    counts = [blocks * len(block), len(read)]
    works: list[Callable[[], object]] = [judge, judge_in_memory]
    with open(os.devnull, "wb") as nowhere:
        if chosen.journal:
            command = ["journalctl", "--directory", str(chosen.journal), "-o", "json", "--all", "--no-pager"]
            names.append("journalctl -o json --all")
            counts.append(chosen.entries)
            works.append(lambda: subprocess.run(command, stdout=nowhere, check=True))
        taken = seconds(chosen.runs, *works)
    sys.stdout.write(f"load average {os.getloadavg()[0]:.1f}, {chosen.runs} runs\n")
    for name, count, of in zip(names, counts, taken, strict=True):
        told(name, count, of)


if __name__ == "__main__":
    main()
