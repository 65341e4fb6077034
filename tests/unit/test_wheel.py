"""An installed ddops works from any folder: the wheel carries what it renders from."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from ddops import overlay, resources

ROOT = Path(__file__).parents[2]


def test_the_wheel_carries_templates_profiles_and_the_overlay(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)],
        check=True, capture_output=True,
    )  # fmt: skip
    with zipfile.ZipFile(next(tmp_path.glob("ddops-*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")
    found = subprocess.run(
        [sys.executable, "-c", "from ddops import profile, overlay, render, resources\n"
         "print(resources.__file__, profile.names(), sorted(overlay.files()), len(render.supervisor_unit()), sep='|')"],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "installed")}, check=True, capture_output=True, text=True,
    ).stdout.split("|")  # fmt: skip

    assert found[0].startswith(str(tmp_path / "installed"))
    assert found[1] == "['b300', 'lab', 'rtx-pro-6000']"
    assert found[2] == str(sorted(overlay.files()))
    assert int(found[3]) > 100
    assert (tmp_path / "installed/ddops/lab/engine.lock").read_bytes() == (ROOT / "ddops/lab/engine.lock").read_bytes()
    assert len(list((tmp_path / "installed/ddops/_data/templates").iterdir())) == len(
        list(resources.folder("templates").iterdir())
    )
