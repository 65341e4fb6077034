"""What a host gets: the same for the same, and right by systemd's own judgement."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ddops import deploy, overlay, profile, render, resources
from ddops.errors import UsageError
from ddops.profile import Profile
from ddops.render import Options
from ddops.settings import Asked
from ddops.site import EngineEntry, HostEntry, Site

SITE = Site(hosts={"h": HostEntry(address="192.0.2.1")}, engine=EngineEntry(python="/bin/true"), model="/models/m")


def options(of: Profile, budget: int = 8, graphs: bool = False, drill: str | None = None) -> Options:
    request = deploy.Request(asked=Asked(budget=budget, graphs=graphs), drill=drill)
    return deploy.options_of(of, SITE, request)[0]


def rendered(budget: int = 8, number: int = 3, site: Site = SITE, drill: str | None = None) -> render.Rendered:
    lab = profile.load("lab")
    return render.release(lab, site, "lab", options(lab, budget, drill=drill), number)


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
        rendered(drill="garbage").fingerprint,
    }
    assert len(different) == 4


def test_the_archive_is_reproducible(monkeypatch: pytest.MonkeyPatch) -> None:
    first = rendered().archive()
    monkeypatch.setattr(time, "time", lambda: 1e9)
    assert rendered().archive() == first


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
@pytest.mark.parametrize("name", profile.names())
def test_systemd_finds_nothing_wrong_with_any_unit(name: str, tmp_path: Path) -> None:
    made = tree(name)
    units = {n: d for n, d in made.files.items() if n.endswith((".service", ".socket"))}
    units["ddops-supervisor@.service"] = render.supervisor_unit().encode()
    assert len(units) == 4
    for unit, data in units.items():
        (tmp_path / unit).write_bytes(data.replace(b"/lib/systemd/systemd-socket-proxyd", b"/bin/true"))
    names = [str(tmp_path / n).replace("@.", "@lab.") for n in units]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if str(tmp_path) in line or made.unit in line or "ddops-" in line]
    assert ours == []


ODD = SITE.model_copy(
    update={
        "drafter": "/models/d",
        "secrets": ["/etc/sglang/se cret%s.env"],
        "credentials": {"HF_TOKEN_PATH": "/etc/sglang/to ken%s"},
        "engine": EngineEntry(python="/usr/bin/true"),
    }
)


def tree(name: str) -> render.Rendered:
    """Everything of release 3 of a profile at budget 12, with what a site can add."""
    wanted = profile.load(name)
    request = deploy.Request(asked=Asked(budget=12))
    return render.release(wanted, ODD, wanted.service, deploy.options_of(wanted, ODD, request)[0], 3)


@pytest.mark.parametrize("name", profile.names())
def test_the_rendered_texts_are_as_they_were(name: str) -> None:
    """UPDATE_SNAPSHOTS=1 pytest tests/unit/test_render.py writes them anew: read the difference before it lands."""
    made = tree(name)
    texts = {n: data.decode() for n, data in sorted(made.files.items()) if not n.startswith("overlay/")}
    texts["ddops-supervisor@.service"] = render.supervisor_unit()
    found = "\n".join(f"==> {name} <==\n{text}" for name, text in texts.items())
    path = Path(__file__).parent / "snapshots" / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert path.read_text() == found


@pytest.mark.parametrize(
    ("launch", "secrets", "says"),
    [
        ({"environment": {"A": "a\x1bb"}}, [], "the value of A holds a control character"),
        ({"environment": {"A-B": "c"}}, [], "'A-B' cannot be the name of an environment variable"),
        ({"arguments": {"tp-size": 8, "x": "a\0b"}}, [], "an argument cannot hold a NUL byte"),
        ({}, ["/a\nb"], "cannot be a path in a unit"),
    ],
)
def test_what_cannot_be_rendered_is_a_mistake_in_a_file(launch: dict[str, Any], secrets: list[str], says: str) -> None:
    lab = profile.load("lab")
    wrong = lab.model_copy(update={"launch": lab.launch.model_copy(update=launch)})
    with pytest.raises(UsageError, match=says):
        render.release(wrong, SITE.model_copy(update={"secrets": secrets}), "lab", options(wrong), 1)


def test_the_overlay_is_the_same_on_both_platforms() -> None:
    b300, rtx = tree("b300"), tree("rtx-pro-6000")
    own = {n: d for n, d in b300.files.items() if n.startswith("overlay/")}
    assert own == {n: d for n, d in rtx.files.items() if n.startswith("overlay/")}
    assert b300.as_manifest()["overlay"] == rtx.as_manifest()["overlay"] == overlay.sha256()
    assert b300.as_manifest()["expect"]["overlay"] == overlay.sha256()


def test_the_overlay_finds_of_itself_what_the_plan_says(tmp_path: Path) -> None:
    for name, data in overlay.files().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    code = "from ddops_overlay import identity; print(identity.sha256())"

    def own() -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert own() == overlay.sha256()
    with (tmp_path / "ddops_overlay/say.py").open("a") as file:
        file.write("# other\n")
    assert own() != overlay.sha256()


def test_what_differs_by_architecture_is_in_the_release() -> None:
    def settings_of(name: str) -> dict[str, object]:
        line = next(x for x in tree(name).files["environment"].decode().splitlines() if x.startswith("DDOPS_OVERLAY="))
        found: dict[str, object] = json.loads(shlex.split(line.partition("=")[2])[0])
        return {key: found[key] for key in ("arch", "verify_tile") if key in found}

    assert settings_of("b300") == {"arch": "sm_103", "verify_tile": [16, 64, 8]}
    assert settings_of("rtx-pro-6000") == {"arch": "sm_120", "verify_tile": [32, 32, 8]}
    assert settings_of("lab") == {}


def test_a_model_that_thinks_is_asked_not_to() -> None:
    questions = tree("b300").as_manifest()["gates"]["smoke"]["questions"]
    assert {str(q["request"]) for q in questions} == {"{'chat_template_kwargs': {'thinking': False}}"}


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
    words = render.command(able, SITE, "lab", options(able, graphs=graphs), 3)
    assert ("--disable-cuda-graph" in words) is flag


@pytest.mark.parametrize("name", ["python3.9", "python3.10"])
def test_the_agent_runs_on_the_oldest_python_of_a_host(name: str, tmp_path: Path) -> None:
    found = shutil.which(name)
    if not found or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"{name} is not on this machine")
    path = tmp_path / "agent.pyz"
    path.write_bytes(resources.agent())
    subprocess.run([found, "-IS", str(path), "serve"], stdin=subprocess.DEVNULL, check=True)


@pytest.mark.parametrize("name", ["api-key", "admin-api-key", "ssl-keyfile-password"])
def test_no_profile_puts_a_secret_into_the_process_list(name: str) -> None:
    lab = profile.load("lab")
    arguments = {**lab.launch.arguments, name: "planted"}
    wrong = lab.model_copy(update={"launch": lab.launch.model_copy(update={"arguments": arguments})})
    with pytest.raises(UsageError, match=f"has {name} among SGLang's arguments") as refused:
        render.release(wrong, SITE, "lab", options(wrong), 1)
    assert "planted" not in f"{refused.value} {refused.value.hint}"
