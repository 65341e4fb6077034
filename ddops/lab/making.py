"""Makes a host's folder: its identity, its keys, and the files only it has."""

import os
import shutil
import uuid
from pathlib import Path

from ddops.lab import network, spec
from ddops.lab.command import run
from ddops.lab.config import LabConfig
from ddops.lab.errors import LabError
from ddops.lab.host import Host, all_hosts
from ddops.lab.options import HostOptions
from ddops.lab.rootfs import make_folders

# the lower addresses are the bridge's, and free for tests
_FIRST, _LAST = 11, 254


def make_client_key(config: LabConfig) -> None:
    """The key pair that all hosts of this lab let in."""
    # ssh-keygen writes the public half last
    if not config.key.with_suffix(".pub").exists():
        config.key.unlink(missing_ok=True)
        _make_key(config.key, "ddops-lab")


def make_host(host: Host, options: HostOptions, rootfs: Path) -> None:
    """Makes the folder aside and renames it: a host exists whole or not at all.

    Raises LabError where the network has no address left, or another lab has this one's.
    """
    config = host.config
    used = {other.spec.index for other in all_hosts(config)}
    index = next((i for i in range(_FIRST, _LAST + 1) if i not in used), 0)
    if not index:
        raise LabError(f"no address left for {host.name}", f"{len(used)} hosts are up", "ddops lab down NAME")
    if (link := f"{config.tag}-{index}") in network.links(config):
        raise LabError(
            f"{config.net}.{index} is another lab's",
            f"the link {link} is there, and no host in {config.hosts} has it",
            "DDOPS_LAB_NET names another network for this lab, DDOPS_LAB_DIR the folder of that one",
        )
    machine_id = uuid.uuid4().hex
    aside = config.hosts / f".new-{host.name}"
    shutil.rmtree(aside, ignore_errors=True)
    for folder in ("disk", "root", "layer/etc/ssh"):
        make_folders(aside / folder)
    etc = aside / "layer/etc"
    _make_key(etc / "ssh/ssh_host_ed25519_key", host.name)
    _put(etc / "ssh/lab_authorized_keys", config.key.with_suffix(".pub").read_text())
    _put(etc / "hostname", f"{host.name}\n")
    _put(etc / "machine-id", f"{machine_id}\n")
    _put(etc / "hosts", f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n::1 localhost\n")
    spec.save(
        str(aside),
        spec.HostSpec(
            name=host.name,
            index=index,
            address=f"{config.net}.{index}",
            link=link,
            tap=f"{config.tag}t{index}",
            bridge=config.bridge,
            netns=config.netns,
            cgroup=f"{config.cgroup}/{host.name}",
            rootfs=str(rootfs),
            disk_kind=options.disk.kind,
            disk_size=options.disk.size,
            memory=options.memory,
            binds=[[str(bind.source), bind.target] for bind in options.binds],
            reboot_delay=options.reboot_delay,
            machine_id=machine_id,
        ),
    )
    os.rename(aside, host.folder)


def _make_key(path: Path, comment: str) -> None:
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path)


def _put(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)
