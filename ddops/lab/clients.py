"""The files with which clients reach the hosts: ssh_config, known_hosts, site.yaml."""

from typing import Any

import yaml

from ddops.lab import drafter
from ddops.lab.config import LabConfig
from ddops.lab.host import Host, all_hosts
from ddops.lab.spec import replace_file

# where `up` binds <cache>/engine, <cache>/model and the drafter into every host
ENGINE = "/opt/ddops/engine"
MODEL = "/opt/ddops/model"


def write(config: LabConfig) -> None:
    """Writes the three anew from the hosts that exist now."""
    hosts = all_hosts(config)
    replace_file(str(config.known_hosts), "".join(_known(host) for host in hosts))
    replace_file(str(config.ssh_config), _ssh_config(config, hosts))
    replace_file(str(config.site), yaml.safe_dump(site(config, hosts), sort_keys=False))


def site(config: LabConfig, hosts: list[Host]) -> dict[str, Any]:
    """ddops' site file for these hosts, as plain values."""
    return {
        "hosts": {
            host.name: {
                "address": host.spec.address,
                "user": "root",
                "identity_file": str(config.key),
                "known_hosts": str(config.known_hosts),
                "lab": True,
                "profile": "lab",
            }
            for host in hosts
        },
        "engine": {"python": f"{ENGINE}/bin/python"},
        "model": MODEL,
        **({"drafter": drafter.DRAFTER} if drafter.path() else {}),
    }


def _known(host: Host) -> str:
    public = (host.folder / "layer/etc/ssh/ssh_host_ed25519_key.pub").read_text()
    kind, key = public.split()[:2]
    return f"{host.name},{host.spec.address} {kind} {key}\n"


def _ssh_config(config: LabConfig, hosts: list[Host]) -> str:
    names = "".join(f"Host {h.name} {h.spec.address}\n  HostName {h.spec.address}\n" for h in hosts)
    return names + (
        "Host *\n"
        "  User root\n"
        f'  IdentityFile "{config.key}"\n'
        "  IdentitiesOnly yes\n"
        f'  UserKnownHostsFile "{config.known_hosts}"\n'
        "  GlobalKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking yes\n"
        # only the key lets anyone in: never ask, and never hang on a host that is cut off
        "  BatchMode yes\n"
        "  ConnectTimeout 5\n"
        "  LogLevel ERROR\n"
    )
