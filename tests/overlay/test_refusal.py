"""SGLang swallows what a plug-in raises, so a refusal ends the process."""

import subprocess
import sys
from pathlib import Path

import pytest

OVERLAY = Path(__file__).parents[2] / "kernels_patch"


@pytest.mark.parametrize("entry", ["load", "platform"])
def test_bad_settings_end_the_process_with_one_line(entry: str) -> None:
    swallow = f"""
from ddops_overlay import plugin
try:
    plugin.{entry}()
except Exception:
    pass
print("went on")
"""
    env = {"PYTHONPATH": str(OVERLAY), "DDOPS_OVERLAY": '{"releese": "lab-0002"}'}
    done = subprocess.run([sys.executable, "-c", swallow], env=env, capture_output=True, text=True)
    assert done.returncode == 78
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "ddops_overlay refuses to start: DDOPS_OVERLAY has unknown keys releese; known: arch, ddtree, drill, platform, "
        "release, verify_tile"
    ]


def test_no_platform_unless_asked_for() -> None:
    env = {"PYTHONPATH": str(OVERLAY)}
    script = "from ddops_overlay import plugin; print(plugin.platform())"
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
