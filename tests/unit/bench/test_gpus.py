"""What the driver's figures say of a load."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddops.agent import gpu_use
from ddops.bench import gpus


def smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_each_gpus_figures_are_read_and_what_is_no_number_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, "echo '412.50, 1100.00, 97, 71'; echo '[N/A], 1100.00, 96, 70'", monkeypatch)
    found = gpu_use.sample()
    assert found["problem"] == ""
    assert found["gpus"] == [
        {"power.draw": 412.5, "power.limit": 1100, "utilization.gpu": 97, "utilization.memory": 71},
        {"power.draw": None, "power.limit": 1100, "utilization.gpu": 96, "utilization.memory": 70},
    ]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exec sleep 60", "nvidia-smi did not end in 0.3 s"),
        (
            "echo 'Unable to determine the device handle for GPU1'; exit 15",
            "Unable to determine the device handle for GPU1",
        ),
        ("exit 9", "nvidia-smi ended with 9"),
        ("true", "the driver tells of no GPU"),
    ],
)
def test_a_driver_that_does_not_answer_is_a_problem_and_no_figure(
    script: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, script, monkeypatch)
    assert gpu_use.sample(0.3) == {"gpus": [], "problem": problem}


def test_a_host_without_the_driver_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_use.sample() == {"gpus": [], "problem": "no nvidia-smi on this host"}


def gpu(power: float | None, busy: float, memory: float) -> dict[str, float | None]:
    return {"power.draw": power, "power.limit": 1000.0, "utilization.gpu": busy, "utilization.memory": memory}


def test_watts_add_up_percents_are_averaged_and_samples_have_a_median() -> None:
    found = gpus.summary([[gpu(300, 90, 60), gpu(500, 100, 80)], [gpu(400, 10, 0)] * 2, [gpu(450, 95, 70)] * 2], "")
    assert (found["samples"], found["power_w"], found["power_limit_w"]) == (3, 800, 2000)
    assert (found["busy_percent"], found["memory_percent"]) == (95, 70)
    assert found["verdict"].startswith("bandwidth-bound")


def test_what_one_gpu_does_not_tell_is_not_known() -> None:
    found = gpus.summary([[gpu(None, 90, 60), gpu(500, 100, 80)]], "")
    assert (found["power_w"], found["busy_percent"]) == (None, 95)
    none = gpus.summary([], "no nvidia-smi on this host")
    assert (none["power_w"], none["samples"]) == (None, 0)
    assert none["verdict"].startswith("unknown")


@pytest.mark.parametrize(
    ("power", "busy", "memory", "begins"),
    [
        (500, 60, 90, "not bandwidth-bound: the GPUs wait"),
        (960, 99, 90, "power-bound"),
        (500, 99, 60, "bandwidth-bound"),
        (500, 99, 59, "not bandwidth-bound: memory"),
    ],
)
def test_the_verdict(power: float, busy: float, memory: float, begins: str) -> None:
    assert gpus.verdict(power, 1000, busy, memory).startswith(begins)
