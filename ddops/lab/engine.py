"""Builds the engine that lab hosts serve with: SGLang on the CPU, in a venv that is bound read-only into them.

Every package has one version, in engine.lock. `torch==2.13.0` is whatever build pip finds: the CPU build where
the index has it. PyPI alone has the CUDA build, which wants its CUDA libraries, some GB more; to avoid them point
pip at PyTorch's CPU index, with PIP_EXTRA_INDEX_URL in the environment.

The venv is made by Debian's /usr/bin/python3, the same as the hosts', and holds no path of the place it was made in
but in scripts that nobody calls: `/opt/ddops/engine/bin/python -m sglang.launch_server` works where it is bound.

What NGRAM speculation compiles when it is first used lies compiled in `jit/`; with TVM_FFI_CACHE_DIR
(in `ENVIRONMENT`) SGLang finds it there, and a host needs no compiler.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ddops.lab import drafter, model, once, recipe
from ddops.lab.command import run
from ddops.lab.errors import LabError

PYTHON = "/usr/bin/python3"
ENGINE = "/opt/ddops/engine"
MODEL = "/opt/ddops/model"

# what a unit that serves with this engine must have
ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "HF_HUB_OFFLINE": "1",
    # two engines share the machine's cores
    "OMP_NUM_THREADS": "1",
    "TVM_FFI_CACHE_DIR": f"{ENGINE}/jit",
}

_HERE = Path(__file__).parent
_LOCK = _HERE / "engine.lock"
_OPS = _HERE / "torchvision_ops.py"

_COMPILE = "from sglang.jit_kernel.ngram_corpus import get_ngram_corpus_cls; get_ngram_corpus_cls()"


def build(cache: Path, report: Callable[[str], None]) -> None:
    """Makes the engine and the model where they are missing, or where their recipe has changed.

    Raises LabError where a tool is missing, or pip, the compiler or the conversion fails.
    """
    engine = path(cache)
    began = time.monotonic()
    if not engine.exists():
        report("building the engine (SGLang on the CPU, 3 GB, two to three minutes, once)")
    if once.make(engine, lambda folder: _fill(folder, cache / "engine.log", report)):
        report(f"built {engine} in {time.monotonic() - began:.0f} s")
    model.build(cache, engine / "bin/python", report)


def fits(distribution: str) -> bool:
    """Says whether hosts of that distribution can run it: it is bound to one Python."""
    return distribution == recipe.DISTRIBUTION


def must_fit(distribution: str) -> None:
    """Raises LabError where hosts of that distribution cannot run it."""
    if not fits(distribution):
        raise LabError(
            f"no engine for {distribution}",
            f"it is built with the Python of {recipe.DISTRIBUTION}",
            "unset DDOPS_LAB_DISTRIBUTION",
        )


def path(cache: Path) -> Path:
    """Where the environment of the present recipe is, built or not."""
    return cache / f"engine-{once.digest(_LOCK, _OPS, _COMPILE)}"


def binds(cache: Path) -> list[tuple[str, str]]:
    """What a host that serves must have bound, read-only: (folder of the machine, folder of the host)."""
    found = [(str(path(cache)), ENGINE), (str(model.path(cache)), MODEL)]
    own = drafter.path()
    return [*found, (str(own), drafter.DRAFTER)] if own else found


def _fill(folder: Path, log: Path, report: Callable[[str], None]) -> None:
    _check_tools()
    log.unlink(missing_ok=True)
    python = folder / "bin/python"
    once.run_logged("the engine's venv was not made", log, PYTHON, "-m", "venv", folder)
    report("installing its packages with pip")
    pip = (python, "-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--requirement", _LOCK)
    once.run_logged("the engine's packages were not installed", log, *pip)
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        report("PyTorch is a CUDA build: installing its CUDA libraries, some GB")
        pins = [line for line in _LOCK.read_text().splitlines() if line.startswith("torch==")]
        once.run_logged("PyTorch's libraries were not installed", log, python, "-m", "pip", "install", *pins)
    _declare_torchvision(next(folder.glob("lib/python3*/site-packages")))
    report("compiling NGRAM's corpus")
    _compile(folder, python, log)


def _check_tools() -> None:
    if not shutil.which("g++"):
        raise LabError("g++ is not installed", "NGRAM's corpus is compiled once", "apt-get install g++")
    version = run(PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    if version != "3.11":
        raise LabError(
            f"{PYTHON} is Python {version}",
            "the lab's hosts are Debian 12, with Python 3.11, and the engine's venv must be of the same",
            "build the engine on Debian 12",
        )


def _declare_torchvision(site_packages: Path) -> None:
    shutil.copyfile(_OPS, site_packages / "ddops_torchvision_ops.py")
    info = site_packages / "ddops_torchvision_ops-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ddops-torchvision-ops\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nddops = ddops_torchvision_ops:declare\n")
    for made in (site_packages / "ddops_torchvision_ops.py", info, *info.iterdir()):
        made.chmod(0o755 if made.is_dir() else 0o644)


def _compile(folder: Path, python: Path, log: Path) -> None:
    jit = folder / "jit"
    env = {
        **os.environ,
        **ENVIRONMENT,
        "TVM_FFI_CACHE_DIR": str(jit),
        # ninja is one of the packages
        "PATH": f"{folder / 'bin'}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        # SGLang 0.5.16 uses size_t without its header, which g++ 12 takes for an error
        "CXX": "g++ -include cstddef",
    }
    once.run_logged("NGRAM's corpus was not compiled", log, python, "-c", _COMPILE, env=env)
    for made in jit.glob("*/*"):
        # SGLang loads the library by the hash of its sources; the rest names this machine's folders
        if made.suffix != ".so":
            made.unlink()
