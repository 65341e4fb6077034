"""What a host gets: the same for the same, and right by systemd's own judgement."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ddops import profile, render, resources
from ddops.render import Options
from ddops.site import EngineEntry, HostEntry, Site

SITE = Site(hosts={"h": HostEntry(address="192.0.2.1")}, engine=EngineEntry(python="/bin/true"), model="/models/m")


def rendered(
    budget: int = 8, number: int = 3, site: Site = SITE, drill: dict[str, object] | None = None
) -> render.Rendered:
    return render.release(profile.load("lab"), site, "lab", Options(budget, False, drill), number)


def test_the_unit_is_as_it_was_agreed() -> None:
    unit = rendered().files["lab-0003.service"].decode()
    lines = unit.splitlines()
    for line in ("Restart=no", "KillMode=mixed", "LimitCORE=0", "LogRateLimitBurst=100000000", "Slice=lab.slice",
                 "SyslogIdentifier=lab", "Type=exec", "TimeoutStartSec=infinity"):  # fmt: skip
        assert line in lines
    command = next(line for line in lines if line.startswith("ExecStart="))
    assert "--host 127.0.0.1 --port 31003" in command
    assert "--speculative-num-draft-tokens 9" in command
    assert "[Install]" not in unit, "a trial is never enabled"


@pytest.mark.parametrize(("budget", "width"), [(1, 2), (8, 9), (12, 13), (16, 17), (32, 33)])
def test_the_verify_width_is_the_budget_and_the_root(budget: int, width: int) -> None:
    manifest = json.loads(rendered(budget).manifest)
    assert manifest["expect"]["server_info"]["speculative_num_draft_tokens"] == width


def test_the_fingerprint_knows_settings_and_not_numbers() -> None:
    assert rendered(number=3).fingerprint == rendered(number=4).fingerprint
    different = {
        rendered().fingerprint,
        rendered(budget=12).fingerprint,
        rendered(site=SITE.model_copy(update={"model": "/models/other"})).fingerprint,
        rendered(drill={"name": "garbage", "after_steps": 0}).fingerprint,
    }
    assert len(different) == 4


def test_the_archive_is_reproducible() -> None:
    assert rendered().archive() == rendered().archive()


def test_no_drill_is_in_a_release_unless_asked_for() -> None:
    assert '\\"drill\\": null' in rendered().files["environment"].decode()


def test_the_overlay_carries_the_entry_points_that_its_variables_name() -> None:
    files = rendered().files
    points = next(data.decode() for name, data in files.items() if name.endswith("entry_points.txt"))
    environment = files["environment"].decode()
    assert 'SGLANG_PLUGINS="ddops-cpu,ddops-overlay"' in environment
    assert "ddops-overlay = ddops_overlay.plugin:load" in points
    assert not any("__pycache__" in name for name in files)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not on this machine")
def test_systemd_finds_nothing_wrong_with_any_unit(tmp_path: Path) -> None:
    units = {n: d for n, d in rendered().files.items() if n.endswith((".service", ".socket"))}
    units["ddops-supervisor@.service"] = render.supervisor_unit().encode()
    for name, data in units.items():
        (tmp_path / name).write_bytes(data.replace(b"/lib/systemd/systemd-socket-proxyd", b"/bin/true"))
    names = [str(tmp_path / n).replace("@.", "@lab.") for n in units]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "lab-" in line or "ddops-" in line]
    assert ours == []


def test_the_agent_is_reproducible_and_runs_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.pyz"
    path.write_bytes(resources.agent())
    request = b'{"call": "services", "args": {}, "bytes": 0}\n'
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", str(path), "serve"], input=request, capture_output=True, check=True
    )
    assert json.loads(done.stdout)["event"] == "result"


@pytest.mark.parametrize(("graphs", "flag"), [(True, False), (False, True)])
def test_graphs_reach_the_engine(graphs: bool, flag: bool) -> None:
    lab = profile.load("lab")
    able = lab.model_copy(update={"graphs": lab.graphs.model_copy(update={"refused_because": None})})
    words = render.command(able, SITE, "lab", Options(8, graphs), 3)
    assert ("--disable-cuda-graph" in words) is flag


@pytest.mark.parametrize("name", ["python3.9", "python3.10"])
def test_the_agent_runs_on_the_oldest_python_of_a_host(name: str, tmp_path: Path) -> None:
    found = shutil.which(name)
    if not found or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"{name} is not on this machine")
    path = tmp_path / "agent.pyz"
    path.write_bytes(resources.agent())
    subprocess.run([found, "-IS", str(path), "serve"], stdin=subprocess.DEVNULL, check=True)
