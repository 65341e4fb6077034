"""What the root file system of every lab host contains: data only.

A change of anything here changes `digest()`, and so the name of the cached tree.
"""

DISTRIBUTION = "bookworm"
# what hosts can run, with the Python that comes with it
DISTRIBUTIONS = {"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13", "jammy": "3.10", "noble": "3.12"}
UBUNTU = ("jammy", "noble")

PACKAGES = (
    # the machine
    "systemd",
    "systemd-sysv",
    "libpam-systemd",
    "libnss-systemd",
    "dbus",
    "openssh-server",
    "sudo",
    "iproute2",
    "iputils-ping",
    "procps",
    "rsync",
    "ca-certificates",
    # the engine's environment is a venv of the host's own Python; what it needs compiled comes with it
    "python3",
    "libgomp1",
)

# nobody reads manuals on a test host
EXCLUDED_PATHS = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")

# units that need a network, a console or the machine's own systemd
MASKED_UNITS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@.service",
    "machines.target",
    "man-db.timer",
    "systemd-networkd.service",
    "systemd-pstore.service",
    "systemd-resolved.service",
    "systemd-timesyncd.service",
)

INIT = "/usr/local/sbin/ddops-lab-init"
MARKER = "/etc/ddops-lab"

INIT_TEXT = """\
#!/bin/sh
# nspawn mounts the cgroup v1 controllers read-only, and MemoryMax would have no effect;
# each host has groups of its own, so open them (a pure v2 machine has nothing to open)
if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
  for c in /sys/fs/cgroup/*; do
    case ${c##*/} in unified | systemd) continue ;; esac
    [ -d "$c" ] && [ ! -L "$c" ] && mount -o remount,bind,rw,nosuid,nodev,noexec "$c"
  done
fi
exec /lib/systemd/systemd "$@"
"""

SSHD_TEXT = """\
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/lab_authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
UseDNS no
"""

# path: (mode, text)
FILES: dict[str, tuple[int, str]] = {
    INIT: (0o755, INIT_TEXT),
    MARKER: (0o644, "a lab host of ddops: faults may be provoked here\n"),
    "/etc/ssh/sshd_config.d/ddops-lab.conf": (0o644, SSHD_TEXT),
    "/etc/sudoers.d/ops": (0o440, "ops ALL=(ALL) NOPASSWD:ALL\n"),
    "/etc/systemd/journald.conf.d/ddops-lab.conf": (0o644, "[Journal]\nStorage=persistent\n"),
    "/etc/default/locale": (0o644, "LANG=C.UTF-8\n"),
    # the host gets one of its own
    "/etc/machine-id": (0o644, ""),
}

LINKS: dict[str, str] = {
    **{f"/etc/systemd/system/{unit}": "/dev/null" for unit in MASKED_UNITS},
    "/etc/systemd/system/multi-user.target.wants/ssh.service": "/lib/systemd/system/ssh.service",
    "/etc/systemd/system/default.target": "/lib/systemd/system/multi-user.target",
}


def digest(distribution: str) -> str:
    """Twelve hex digits that name this recipe for a distribution."""
    # here and not above: the keepers import this module, and must stay small
    import hashlib
    import json

    text = json.dumps([distribution, PACKAGES, EXCLUDED_PATHS, FILES, LINKS], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
