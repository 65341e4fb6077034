"""The keys that Ubuntu's archive is signed with, for a machine whose distribution does not have them."""

import hashlib
from pathlib import Path

from ddops.lab.command import run
from ddops.lab.errors import LabError

ARCHIVE = "http://archive.ubuntu.com/ubuntu"
_PACKAGE = f"{ARCHIVE}/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
_SHA256 = "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8"
_KEYS = "usr/share/keyrings/ubuntu-archive-keyring.gpg"


def ubuntu(work: Path) -> Path:
    """Returns the file with the keys: the machine's own, or that of Ubuntu's package, unpacked into a folder.

    The package is known by its sha256, so it may come over any line. Raises LabError where it does not come.
    """
    if (own := Path("/") / _KEYS).exists():
        return own
    import httpx

    try:
        package = httpx.get(_PACKAGE, timeout=30).raise_for_status().content
    except httpx.HTTPError as error:
        raise LabError("the keys of Ubuntu's archive did not come", str(error), "try again") from None
    if (found := hashlib.sha256(package).hexdigest()) != _SHA256:
        raise LabError(f"{_PACKAGE} is not the package that is known", f"its sha256 is {found}", "report this")
    file = work / "keyring.deb"
    file.write_bytes(package)
    run("dpkg-deb", "-x", file, work / "keyring")
    return work / "keyring" / _KEYS
