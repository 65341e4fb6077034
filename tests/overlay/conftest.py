"""The overlay is a project of its own and is not installed beside ddops: find it in its folder.

Tests that need torch are skipped where it is missing, as in the project's own environment. To run them all, use
the engine's Python with pytest in a folder beside it (it never goes into the engine itself):

    ENGINE=<cache>/engine-<digest>
    $ENGINE/bin/python -m pip install --target build/pytest pytest
    PYTHONPATH=build/pytest $ENGINE/bin/python -m pytest -c /dev/null --rootdir . -p no:cacheprovider tests/overlay
"""

import os
import sys
from pathlib import Path

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE.parents[1] / "kernels_patch"), str(_HERE)]

# Triton reads it when a kernel is defined: without a GPU the kernels run in its interpreter
if not Path("/dev/nvidia0").exists():
    os.environ["TRITON_INTERPRET"] = "1"
