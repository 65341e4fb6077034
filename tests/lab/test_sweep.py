"""A sweep on a real host: it finds the ceiling by itself, keeps what broke, and known-good serves after each cell."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .service_host import STATE, ServiceHost, wait_for

pytestmark = pytest.mark.lab

BASE = 3  # the operation of the first cell, after the adoption and the first deploy
FAULT = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


def sweep(host: ServiceHost, study: Path, *more: str) -> tuple[str, ...]:
    small = ("--concurrency", "1,2", "--requests", "2", "--tokens", "40", "--repeats", "1")
    return ("sweep", "lab", "--study", str(study), "--drill", "illegal-access", *small, *more)


def finish(client: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]]]:
    output, _ = client.communicate(timeout=240)
    return client.returncode, [json.loads(line) for line in output.splitlines()]


def test_a_sweep_whose_client_is_killed_goes_on_and_finds_the_ceiling(served: ServiceHost, tmp_path: Path) -> None:
    study = tmp_path / "study.jsonl"
    args = sweep(served, study, "--budgets", "4,8,12,16", "--keep-going")
    served.script(w5={"load_s": 1})
    first = served.start(*args)
    wait_for(lambda: served.began("load", BASE + 1), 30, "the second cell loads")
    first.kill()
    first.wait()
    csv = tmp_path / "study.csv"
    code, lines = finish(served.start(*args, "--csv", str(csv)))

    assert code == 0
    cells, result = {line["cell"]["budget"]: line for line in lines[:-1]}, lines[-1]
    assert result["ceilings"][0]["ceiling"] == 8
    assert result["ceilings"][0]["fails_at"] == 12
    assert result["cells"] == {"good": 2, "bad": 2}
    assert list(cells) == [4, 12, 16], "the first cell was known, the second was taken up"
    for budget in (12, 16):
        assert [f["line"] for f in cells[budget]["faults"]] == [FAULT]
        unit = f"lab-{cells[budget]['release']:04d}.service"
        assert FAULT in served.lines(unit)
        assert served.starts(unit) == 1
    assert served.outcome(BASE + 4) is None, "four cells are four operations: none was tried twice"
    assert [(served.outcome(BASE + n) or {})["outcome"] for n in range(4)] == [
        *("measured", "measured", "rolled-back", "rolled-back")
    ]
    assert served.on("find", f"{STATE}/notices", "-name", "*.json", check=False) == "", "a sweep is told by its study"
    assert served.starts("lab-0001.service") == 5, "known-good came back after each cell"
    served.assert_whole(1)
    assert len(csv.read_text().splitlines()) == 1 + 4 * 2
