"""A fresh lab host with the scripted engine on it, for the tests' fixtures and for the benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from ddops import profile as profiles
from ddops.lab import hand_made, recipe
from ddops.lab.config import LabConfig
from ddops.lab.lab import Lab
from ddops.lab.options import Bind, Disk, HostOptions

from .service_host import ServiceHost, environment, wait_for

PACKAGES = f"lib/python{recipe.DISTRIBUTIONS[LabConfig.from_environment().distribution]}/site-packages"
_PYTHON, _MODEL = "/opt/stub/bin/python", "/opt/stub/model"


def make_folder(folder: Path) -> Path:
    """Fills a folder so that it looks like an environment with SGLang and a model; returns it."""
    packages = folder / PACKAGES
    for name in ("sglang", "sglang-0.5.16.dist-info"):
        (packages / name).mkdir(parents=True)
    (packages / "sglang-0.5.16.dist-info/RECORD").write_text("sglang-0.5.16.dist-info/RECORD,,\n")
    (packages / "sglang/__init__.py").write_text("")
    (packages / "sglang/launch_server.py").write_bytes((Path(__file__).parent / "stub/engine.py").read_bytes())
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to("/usr/bin/python3")
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text("{}")
    folder.chmod(0o755)
    return folder


@contextmanager
def running(lab: Lab, stub_folder: Path, site: Path, disk: Disk | None = None) -> Iterator[ServiceHost]:
    """Boots the host; the engine serves at its public port, started by hand. ``site`` is the file to write."""
    lab.up("stub", options=HostOptions(disk or HostOptions().disk, binds=(Bind(stub_folder, "/opt/stub"),)))
    entry = yaml.safe_load(lab.config.site.read_text())["hosts"]["stub"]
    site.write_text(yaml.safe_dump({"hosts": {"stub": entry}, "engine": {"python": _PYTHON}, "model": _MODEL}))
    host = ServiceHost(lab, "stub", environment(lab, site))
    hand_made.start(lab, "stub", profiles.load("lab"), _PYTHON, _MODEL)
    wait_for(lambda: host.ask() == "Paris", 20, "the hand-made unit answers")
    try:
        yield host
    finally:
        host.end_clients()
        lab.down("stub")
