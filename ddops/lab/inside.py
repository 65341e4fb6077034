"""Command lines that run something in a host: over ssh, or without any network."""

from ddops.lab.errors import LabError
from ddops.lab.host import Host
from ddops.lab.network import inside

_ENVIRONMENT = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
)


def ssh_command(host: Host, *args: str) -> list[str]:
    """As `ssh HOST ARGS...`; the host's key is checked strictly."""
    config = host.config
    return [*inside(config), "ssh", "-F", str(config.ssh_config), host.spec.address, *args]


def exec_command(host: Host, *args: str) -> list[str]:
    """Enters the host's namespaces as root: works while its network or sshd is broken.

    Raises LabError where the host is not running.
    """
    pid = host.pid1
    if not pid:
        raise LabError(f"{host.name} is {host.state}", "there is nothing to enter", start_hint(host))
    return [
        *("nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"),
        *("--root", "--wd", "--", "/usr/bin/env", "-i", *_ENVIRONMENT, *args),
    ]


def start_hint(host: Host) -> str:
    return f"ddops lab {'up' if host.state == 'dead' else 'start'} {host.name}"
