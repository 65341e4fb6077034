"""The Debian packages that the machine itself needs for a lab."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from ddops.lab.command import run
from ddops.lab.errors import LabError

PACKAGE_OF = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "mkfs.ext4": "e2fsprogs",
    "nsenter": "util-linux",
    # the engine compiles NGRAM's corpus once, when it is built
    "g++": "g++",
}
# no tool of its own on the PATH: the engine is a venv of Debian's Python
_VENV = Path("/usr/lib/python3.11/ensurepip/__init__.py")


def missing() -> list[str]:
    """Names of the packages whose tools are not on the PATH."""
    packages = [package for tool, package in PACKAGE_OF.items() if not shutil.which(tool)]
    return packages if _VENV.exists() else [*packages, "python3-venv"]


def install(report: Callable[[str], None]) -> list[str]:
    """Installs what is missing and returns what apt was asked for.

    Raises LabError where apt fails or the machine has no apt.
    """
    packages = missing()
    if not packages:
        return []
    if not shutil.which("apt-get"):
        raise LabError(
            f"missing: {' '.join(packages)}",
            "this machine has no apt-get to install them with",
            "install their tools by hand: " + " ".join(PACKAGE_OF),
        )
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    report(f"installing {' '.join(packages)} with apt-get")
    run("apt-get", "update", env=env)
    wanted = [pinned(package) for package in packages]
    run("apt-get", "install", "-y", "--no-install-recommends", *wanted, env=env)
    return wanted


def pinned(package: str) -> str:
    """systemd-container at the version of the machine's systemd, where that is still served.

    A newer one upgrades systemd itself with it, and a lab must not change the machine.
    """
    if package != "systemd-container":
        return package
    version = run("dpkg-query", "-W", "-f", "${Version}", "systemd", check=False).strip()
    served = run("apt-cache", "madison", package, check=False)
    if version and re.search(rf"\|\s*{re.escape(version)}\s*\|", served):
        return f"{package}={version}"
    return package
