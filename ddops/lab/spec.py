"""What one host is made of: written once by `up`, read by its keeper.

A plain class and not a dataclass: there is one keeper for each host, and the import of
dataclasses costs each of them more memory than all the rest of its own code.
"""

import json
import os


class HostSpec:
    """All values are final; sizes are as systemd and mount take them (512M, 2G)."""

    def __init__(
        self,
        *,
        name: str,
        index: int,
        address: str,
        link: str,
        tap: str,
        bridge: str,
        netns: str,
        cgroup: str,
        rootfs: str,
        disk_kind: str,
        disk_size: str,
        memory: str,
        binds: list[list[str]],
        reboot_delay: float,
        machine_id: str,
    ) -> None:
        self.name = name
        self.index = index
        self.address = address
        self.link = link
        self.tap = tap
        self.bridge = bridge
        self.netns = netns
        self.cgroup = cgroup
        self.rootfs = rootfs
        self.disk_kind = disk_kind
        self.disk_size = disk_size
        self.memory = memory
        self.binds = binds
        self.reboot_delay = reboot_delay
        self.machine_id = machine_id


def load(folder: str) -> HostSpec:
    with open(f"{folder}/spec.json") as file:
        return HostSpec(**json.load(file))


def save(folder: str, spec: HostSpec) -> None:
    replace_file(f"{folder}/spec.json", json.dumps(vars(spec), indent=1))


def replace_file(path: str, text: str) -> None:
    """Writes a file whole or not at all: others read it at any moment."""
    aside = f"{path}.{os.getpid()}"
    with open(aside, "w") as file:
        file.write(text)
    os.replace(aside, path)
