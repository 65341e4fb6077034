"""A site's own diffs on a host: adopted, patched, rolled back; the installed SGLang is never touched."""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path

import pytest
import yaml

from ddops import resources

from .service_host import STATE, ServiceHost
from .stub_host import PACKAGES

pytestmark = pytest.mark.lab

INSTALLED = f"/opt/stub/{PACKAGES}/sglang/launch_server.py"
SAYS = "patched by the site"
BEFORE = '    if os.environ.get("DDOPS_OVERLAY")'


def patch_the_site(host: ServiceHost, folder: Path, stub_folder: Path) -> tuple[str, str]:
    """Makes a profile and a site without the plug-in and with one diff; returns the file before and after."""
    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    values["overlay"]["platform"] = None
    (folder / "old-stack.yaml").write_text(yaml.safe_dump(values))
    host.profile = str(folder / "old-stack.yaml")
    site = Path(host.environment["DDOPS_SITE"])
    entry = {"diffs": str(folder / "patches"), "plugin": False}
    site.write_text(yaml.safe_dump({**yaml.safe_load(site.read_text()), "overlay": entry}))
    before = (stub_folder / f"{PACKAGES}/sglang/launch_server.py").read_text()
    after = before.replace(BEFORE, f'    say("{SAYS}")\n{BEFORE}', 1)
    names = ("a/python/sglang/launch_server.py", "b/python/sglang/launch_server.py")
    (folder / "patches").mkdir()
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), *names)
    (folder / "patches/says.diff").write_text("".join(lines))
    return before, after


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_service_is_adopted_patched_and_rolled_back(stub: ServiceHost, stub_folder: Path, tmp_path: Path) -> None:
    before, after = patch_the_site(stub, tmp_path, stub_folder)
    unpinned = stub.ddops("overlay", "check")
    assert unpinned.code == 2
    assert "pins.yaml is not there" in unpinned.document["error"]["what"]
    pinned = stub.ddops("overlay", "pin", str(tmp_path / "patches"))
    assert pinned.document["files"] == {"sglang/launch_server.py": {"before": sha256(before), "after": sha256(after)}}
    checked = stub.ddops("overlay", "check")
    assert checked.code == 0
    states = {check["name"]: check["state"] for check in checked.document["hosts"][0]["checks"]}
    assert states == {"ssh": "ok", "overlay fit": "not here", "diffs fit": "ok"}

    assert stub.ddops("adopt", "sglang.service", "--profile", stub.profile).code == 0
    ran = stub.deploy(8)
    assert ran.code == 0, ran
    assert SAYS in stub.lines("lab-0001.service")
    copy = f"{STATE}/releases/0001/tree/sglang/launch_server.py"
    assert stub.file(copy) == after
    assert stub.file(INSTALLED) == before
    words = stub.file(f"/proc/{stub.main_pid('lab-0001.service')}/environ")
    assert words is not None
    assert f"PYTHONPATH={STATE}/releases/0001/tree" in words.split("\0")
    assert stub.deploy(8).document["outcome"] == "unchanged"

    # another SGLang than the one that was pinned: nothing is stored, nothing stops
    pid = stub.main_pid("lab-0001.service")
    installed = stub_folder / f"{PACKAGES}/sglang/launch_server.py"
    installed.write_text(before + "# edited\n")
    try:
        refused = stub.deploy(12)
        fits = stub.ddops("overlay", "check")
    finally:
        installed.write_text(before)
    assert refused.code == 5
    assert refused.document["error"]["what"] == "sglang/launch_server.py is not the file that the diffs were made for"
    assert fits.code == 9
    assert stub.on("ls", "-A", f"{STATE}/releases").split() == ["0000", "0001"]
    assert stub.main_pid("lab-0001.service") == pid

    assert stub.ddops("rollback", "--to", "0").code == 0
    assert stub.active("sglang.service") == "active"
    assert SAYS not in stub.lines("sglang.service")
    # a copy that somebody edits is no way back any more
    stub.write(copy, after + "# edited\n")
    damaged = stub.ddops("rollback", "--to", "1")
    assert damaged.code == 5
    assert "launch_server.py is not as it was stored" in str(damaged.document)
    assert stub.active("sglang.service") == "active"
    stub.write(copy, after)
    back = stub.ddops("rollback", "--to", "1")
    assert back.code == 0, back
    assert stub.ask() == "Paris", "from a unit that holds the port itself back behind the front"
    assert stub.lines("lab-0001.service").count(SAYS) == 2
