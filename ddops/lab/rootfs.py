"""Builds the root file system that all lab hosts share, once for each recipe."""

import fcntl
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ddops.lab import keyring, recipe
from ddops.lab.command import run
from ddops.lab.errors import LabError

# on a tmpfs: on a disk, dpkg's fsyncs more than double the time
_SCRIPT = """\
set -e
work=$1 target=$2; shift 2
mount -t tmpfs -o size=4g,mode=755 tmpfs "$work"
mmdebstrap --mode=root --variant=minbase "$@" >&2
cp -a "$work/root" "$target"
"""


def path(cache: Path, distribution: str) -> Path:
    """Where the tree of the present recipe is, built or not."""
    return cache / f"rootfs-{recipe.digest(distribution)}"


def build(cache: Path, distribution: str, report: Callable[[str], None], force: bool = False) -> Path:
    """Returns a distribution's tree, after building it where it is missing or `force` is true.

    The tree appears whole or not at all. Raises LabError where mmdebstrap fails, and
    where `force` would take the tree away from a running host.
    """
    target = path(cache, distribution)
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "rootfs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists() and not force:
            return target
        if target.exists() and _in_use(target):
            raise LabError("the root file system was not built anew", "hosts run on it", "ddops lab down --all")
        for stale in cache.glob(".rootfs-*"):
            # of a build that was killed: this one has the lock
            shutil.rmtree(stale)
        report(f"building the root file system ({distribution}, about a minute, once)")
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=".rootfs-", dir=cache) as folder:
            work = Path(folder)
            (work / "mount").mkdir()
            _bootstrap(distribution, work, cache / "rootfs.log")
            furnish(work / "tree")
            if target.exists():
                target.rename(work / "old")
            (work / "tree").rename(target)
        report(f"built {target} in {time.monotonic() - began:.0f} s")
    return target


def _bootstrap(distribution: str, work: Path, log: Path) -> None:
    mount, tree = work / "mount", work / "tree"
    options = [
        f"--include={','.join(recipe.PACKAGES)}",
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.EXCLUDED_PATHS),
        distribution,
        str(mount / "root"),
        *_sources(distribution, work),
    ]
    script = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", str(mount), str(tree), *options]
    with log.open("w") as out:
        done = subprocess.run(script, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    if done.returncode:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise LabError(
            "the root file system was not built",
            lines[-1] if lines else f"exit status {done.returncode}",
            f"read {log}",
        )


def _sources(distribution: str, work: Path) -> list[str]:
    """The machine's own package sources where it runs this distribution; else mmdebstrap's own choice, and Ubuntu's
    archive with its keys."""
    for name in ("sources.list.d/debian.sources", "sources.list.d/ubuntu.sources", "sources.list"):
        file = Path("/etc/apt") / name
        if file.exists() and distribution in file.read_text():
            return [str(file)]
    if distribution not in recipe.UBUNTU:
        return []
    archive = f"[signed-by={keyring.ubuntu(work)}] {keyring.ARCHIVE}"
    return [f"deb {archive} {distribution}{part} main universe" for part in ("", "-updates", "-security")]


def furnish(tree: Path) -> None:
    """Turns a fresh Debian tree into a lab host's: files, users, units."""
    for name in ("resolv.conf", "hostname"):
        (tree / "etc" / name).unlink(missing_ok=True)
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for name, (mode, text) in recipe.FILES.items():
        file = tree / name.lstrip("/")
        make_folders(file.parent)
        file.write_text(text)
        file.chmod(mode)
    for name, to in recipe.LINKS.items():
        link = tree / name.lstrip("/")
        make_folders(link.parent)
        link.unlink(missing_ok=True)
        link.symlink_to(to)
    make_folders(tree / "var/log/journal")
    run("chroot", tree, "useradd", "--create-home", "--shell", "/bin/bash", "--password", "*", "ops")


def make_folders(folder: Path) -> None:
    """Makes a folder and its parents readable to all, whatever the caller's umask."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    folder.mkdir()
    folder.chmod(0o755)


def _in_use(tree: Path) -> bool:
    for table in Path("/proc").glob("[0-9]*/mounts"):
        try:
            if f"lowerdir={tree}," in table.read_text():
                return True
        except OSError:
            # that process ended
            continue
    return False
