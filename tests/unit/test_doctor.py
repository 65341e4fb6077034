"""What ``ddops doctor`` makes of a host's words. The samples are in nvidia-smi's shape and our own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ddops import overlay
from ddops.agent import commands
from ddops.agent.checks import gpus, hooked, machine
from tests.unit.test_command_line import UNREACHABLE, ddops

B300 = {"arch": "sm_103", "gpus": 2, "gpu_memory_mib": 275040, "link": "nvlink", "power_watts": 1100}
WHOLE = (
    "0, NVIDIA B300 SXM6 AC, 580.95.05, 10.3, 275040, 1100.00\n1, NVIDIA B300 SXM6 AC, 580.95.05, 10.3, 275040, 1100.00"
)
OTHERS = "0, NVIDIA RTX PRO 6000 Blackwell Server Edition, 580.82, 12.0, 97887, 600.00\n"


def states(text: str, hardware: dict[str, Any] | None) -> dict[str, str]:
    return {f["name"]: f["state"] for f in gpus.compare(gpus.parse(text), hardware)}


def test_gpus_as_the_profile_says_are_well() -> None:
    found = gpus.compare(gpus.parse(WHOLE), B300)
    assert {f["state"] for f in found} == {"ok"}
    assert [f["found"] for f in found] == [
        "2 x NVIDIA B300 SXM6 AC", "sm_103", "275040 MiB each", "580.95.05", "1100 W",
    ]  # fmt: skip


def test_a_gpu_that_is_lost_another_one_and_a_low_limit_are_told_apart() -> None:
    one = WHOLE.splitlines()[0]
    assert states(one, B300) == {
        "gpus": "bad", "gpu arch": "ok", "gpu memory": "ok", "driver": "ok", "power limit": "ok",
    }  # fmt: skip
    assert states(OTHERS * 2, B300) == {
        "gpus": "ok", "gpu arch": "bad", "gpu memory": "bad", "driver": "ok", "power limit": "warn",
    }  # fmt: skip
    assert states(WHOLE.replace("275040", "288000"), B300)["gpu memory"] == "warn"
    assert states(WHOLE.replace("275040", "274000"), B300)["gpu memory"] == "ok", "versions differ by some MiB"
    unknown = WHOLE.replace("275040", "[Unknown Error]", 1).replace("1100.00", "[N/A]")
    assert states(unknown, B300) == {**states(WHOLE, B300), "gpu memory": "bad", "power limit": "not here"}
    assert states(WHOLE, None) == {"gpus": "ok", "driver": "ok", "power limit": "ok"}
    assert states("", B300) == {"gpus": "bad"}


def fake_nvidia_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def last(hardware: dict[str, Any] | None, timeout: float = 20) -> dict[str, Any]:
    found = gpus.check(hardware, timeout)
    assert found[0]["name"] == "arch"
    return found[-1]


def test_a_driver_that_fails_hangs_or_is_missing_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvidia_smi(tmp_path, "echo 'NVIDIA-SMI has failed: no communication with the driver'; exit 9", monkeypatch)
    found = last(B300)
    assert (found["state"], found["found"]) == ("bad", "NVIDIA-SMI has failed: no communication with the driver")
    # a child keeps the output open: its end is not waited for
    fake_nvidia_smi(tmp_path, "sleep 600 & exec sleep 600", monkeypatch)
    found = last(B300, timeout=0.2)
    assert (found["state"], found["found"]) == ("bad", "nvidia-smi did not end in 0.2 s")
    fake_nvidia_smi(tmp_path, "echo 'Unable to determine the device handle for GPU0: Unknown Error'", monkeypatch)
    assert "is not understood: Unable to determine" in last(B300)["found"]
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert (last(B300)["state"], last({**B300, "gpus": 0})["state"], last(None)["state"]) == (
        "bad", "not here", "not here",
    )  # fmt: skip


def test_a_command_that_ends_gives_its_code_and_both_streams() -> None:
    answer = commands.ask(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (answer.code, answer.text, answer.last_line) == (3, "out\nerr\n", "err")


def test_the_last_setting_of_journald_counts() -> None:
    text = (
        "# /etc/systemd/journald.conf\n[Journal]\n#Storage=none\nRateLimitBurst=5\n\nRateLimitBurst = 0\nStorage=auto"
    )
    assert machine.settings(text) == {"RateLimitBurst": "0", "Storage": "auto"}


def test_ptrace_matters_where_gpus_reach_each_other_by_nvlink(tmp_path: Path) -> None:
    scope = tmp_path / "ptrace_scope"
    assert machine.ptrace("nvlink", scope)[0]["state"] == "not here"
    scope.write_text("1\n")
    assert machine.ptrace("nvlink", scope)[0]["state"] == "warn"
    assert machine.ptrace("pcie", scope)[0]["state"] == "ok"
    scope.write_text("0\n")
    assert machine.ptrace("nvlink", scope)[0]["state"] == "ok"


SOURCE = '''\
import functools


def deco(f):
    return f


class Runner:
    """One."""

    # above
    @deco
    @functools.cache
    def forward(self, x):
        def inner():
            return x

        return inner()
        # still the body's

    def after(self):
        return 1


async def alone():
    pass
'''


def test_a_source_is_found_without_importing_it_as_inspect_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import inspect

    package = tmp_path / "fits_here"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "runner.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    from fits_here import runner  # type: ignore[import-not-found]

    for target, thing in (
        ("fits_here.runner.Runner", runner.Runner),
        ("fits_here.runner.Runner.forward", runner.Runner.forward.__wrapped__),
        ("fits_here.runner.Runner.after", runner.Runner.after),
        ("fits_here.runner.alone", runner.alone),
    ):
        assert hooked.source_of(tmp_path, target) == inspect.getsource(thing), target
    for target in ("fits_here.runner.Runner.gone", "fits_here.none.f", "nowhere.f", "fits_here.runner.Runner.after.x"):
        assert hooked.source_of(tmp_path, target) is None, target


def test_the_pins_are_those_of_the_overlay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "kernels_patch"))
    from ddops_overlay import pins

    before = set(sys.modules)
    assert overlay.pins() == {"sglang": pins.SGLANG, "sources": pins.SOURCES}
    assert set(sys.modules) == before, "nothing of the overlay is imported for it"


def test_a_host_that_is_not_reached_is_told_and_the_others_too(tmp_path: Path) -> None:
    site = UNREACHABLE.replace("{h:", "{here: {address: local}, h:")
    done = ddops("doctor", "--json", folder=tmp_path, site=site)
    assert done.returncode == 6, done.stderr
    here, away = sorted(json.loads(done.stdout)["hosts"], key=lambda host: bool(host["unreachable"]))
    assert (away["host"], away["unreachable"], away["good"]) == ("h", True, False)
    assert [check["name"] for check in away["checks"]] == ["ssh"]
    assert here["host"] == "here"
    assert done.stderr.splitlines()[:2] == ["asking h", "asking here"]
    if len(here["checks"]) > 2:  # whoever runs this is root, or may become it
        assert {c["name"]: c["state"] for c in here["checks"]}["engine.python"] == "bad"
    alone = ddops("doctor", "--host", "here", folder=tmp_path, site=site)
    assert alone.returncode == 9
    assert alone.stdout.startswith("here: NOT WELL\n")
