"""A folder that is made once for each recipe, and appears whole or not at all."""

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ddops.lab.errors import LabError


def digest(*parts: str | Path) -> str:
    """Twelve hex digits that name a recipe: texts, and files by their content."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode()
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:12]


def make(target: Path, fill: Callable[[Path], None]) -> bool:
    """Has `fill` make `target` beside its place, where it is missing; returns whether it was."""
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    kind = target.name.partition("-")[0]
    with (folder / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return False
        for stale in folder.glob(f".{kind}-*"):
            # of a build that was killed: this one has the lock
            shutil.rmtree(stale)
        with tempfile.TemporaryDirectory(prefix=f".{kind}-", dir=folder) as work:
            made = Path(work) / "made"
            fill(made)
            made.chmod(0o755)
            made.rename(target)
    return True


def run_logged(what: str, log: Path, *args: str | Path, env: Mapping[str, str] | None = None) -> None:
    """Runs a long command with its output in `log`; raises LabError with the last line where it fails."""
    argv = [str(arg) for arg in args]
    with log.open("a") as out:
        # readable to a service's own user, whatever the caller's umask
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, umask=0o022)
    if done.returncode:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise LabError(what, lines[-1] if lines else f"exit status {done.returncode}", f"read {log}")
