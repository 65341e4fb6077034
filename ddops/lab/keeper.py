"""One process for each host: holds its disk and network, and runs systemd-nspawn.

Started as `python -S -P -m ddops.lab.keeper FOLDER`. A tmpfs disk lives in this process's
mount namespace, so it outlasts the host's crashes, and all of it is gone when this ends.
Signals: USR1 power on, USR2 clean shutdown, HUP power cut, TERM remove.
Imports are few on purpose: 64 of these must be cheap. No pathlib, no subprocess.
"""

import contextlib
import json
import os
import signal
import sys
import time

from ddops.lab import cgroup, kernel, recipe
from ddops.lab.spec import HostSpec, load, replace_file

# nspawn's exit status when the host asked for a reboot, under --keep-unit
_REBOOT = 133
_SIGNALS = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD}


def main(folder: str) -> None:
    spec = load(folder)
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    lab_net = os.open(f"/run/netns/{spec.netns}" if spec.netns else "/proc/self/ns/net", os.O_RDONLY)
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWNET)
    kernel.keep_mounts_private()
    # nspawn leaves locks and folders there: let them be this process's own
    _mount_tmpfs("/run/systemd" if os.path.isdir("/run/systemd") else "/run", "8M")
    _plug_in(spec, f"/proc/{os.getpid()}/fd/{lab_net}")
    _mount_disk(spec, folder)
    _serve(spec, folder)
    log("removed")


def _plug_in(spec: HostSpec, lab_net: str) -> None:
    """The host's eth0 here, its other end on the lab's bridge."""
    octets = [int(octet) for octet in spec.address.split(".")]
    mac = "02:02:" + ":".join(f"{octet:02x}" for octet in octets)
    peer = ["peer", "name", spec.link, "netns", lab_net]
    call("ip", "link", "add", "eth0", "address", mac, "type", "veth", *peer)
    call("ip", "link", "set", "lo", "up")
    call("ip", "addr", "add", f"{spec.address}/24", "brd", "+", "dev", "eth0")
    call("nsenter", f"--net={lab_net}", "ip", "link", "set", spec.link, "master", spec.bridge, "up")


def _mount_disk(spec: HostSpec, folder: str) -> None:
    """An overlay of the shared tree and the host's own disk, at FOLDER/root."""
    disk = f"{folder}/disk"
    if spec.disk_kind == "tmpfs":
        _mount_tmpfs(disk, spec.disk_size)
    else:
        image = f"{folder}/disk.img"
        if not os.path.exists(image):
            call("truncate", "-s", spec.disk_size, f"{image}.new")
            call("mkfs.ext4", "-q", "-m", "1", "-E", "lazy_itable_init=1", f"{image}.new")
            os.rename(f"{image}.new", image)
        call("mount", "-o", "loop,discard", image, disk)
    os.makedirs(f"{disk}/work", exist_ok=True)
    if not os.path.exists(f"{disk}/upper"):
        call("cp", "-a", f"{folder}/layer", f"{disk}/upper.new")
        os.rename(f"{disk}/upper.new", f"{disk}/upper")
    layers = f"lowerdir={spec.rootfs},upperdir={disk}/upper,workdir={disk}/work"
    call("mount", "-t", "overlay", "-o", layers, "overlay", f"{folder}/root")


def nspawn_command(spec: HostSpec, root: str, net: str) -> list[str]:
    """Boots `root` without asking anything of the machine's own systemd, if it has one."""

    def plain(path: str) -> str:
        return path.replace("\\", "\\\\").replace(":", "\\:")

    return [
        "systemd-nspawn",
        "--quiet",
        "--settings=no",
        "--register=no",
        "--keep-unit",
        f"--directory={root}",
        f"--machine={spec.name}",
        f"--hostname={spec.name}",
        f"--uuid={spec.machine_id}",
        f"--network-namespace-path={net}",
        # IPAddressDeny of a unit is a bpf program
        "--capability=CAP_NET_ADMIN,CAP_IPC_LOCK,CAP_BPF",
        "--system-call-filter=bpf",
        "--link-journal=no",
        "--resolv-conf=off",
        "--timezone=off",
        "--console=read-only",
        "--kill-signal=SIGRTMIN+3",
        *(f"--bind-ro={plain(source)}:{plain(target)}" for source, target in spec.binds),
        recipe.INIT,
    ]


def _serve(spec: HostSpec, folder: str) -> None:
    boot = 0
    while True:
        boot += 1
        groups = cgroup.create(spec.cgroup, spec.memory)
        call("ip", "link", "set", "eth0", "up")
        nspawn = _boot(spec, folder, groups)
        publish(folder, "on", boot)
        code, removed = _await_end(spec, nspawn)
        publish(folder, "rebooting" if code == _REBOOT else "off", boot)
        call("ip", "link", "set", "eth0", "down")
        cgroup.kill(spec.cgroup)
        if not cgroup.remove(spec.cgroup):
            log("processes of the host outlast it")
        if removed:
            return
        if code == _REBOOT:
            ask = _await_signal(time.monotonic() + spec.reboot_delay)
            if ask == signal.SIGHUP:
                publish(folder, "off", boot)
            elif ask != signal.SIGTERM:
                continue
            else:
                return
        if _await_signal(None) == signal.SIGTERM:
            return


def _boot(spec: HostSpec, folder: str, groups: list[str]) -> int:
    """Starts nspawn in the host's groups and returns its pid."""
    argv = nspawn_command(spec, f"{folder}/root", f"/proc/{os.getpid()}/ns/net")
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        # /tmp is on the host's disk, which has a size
        "SYSTEMD_NSPAWN_TMPFS_TMP": "0",
        "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
    }
    pid = os.fork()
    if pid:
        return pid
    try:
        kernel.die_with_parent()
        os.setsid()
        for group in groups:
            with open(f"{group}/cgroup.procs", "w") as procs:
                procs.write(str(os.getpid()))
        console = os.open(f"{folder}/console.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(console, 1)
        os.dup2(console, 2)
        os.closerange(3, 64)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execvpe(argv[0], argv, env)  # noqa: S606
    finally:
        os._exit(99)


def _await_end(spec: HostSpec, nspawn: int) -> tuple[int, bool]:
    """Obeys signals until nspawn ends: its exit status, and whether the host is to be removed."""
    removed = False
    while True:
        ask = signal.sigwait(_SIGNALS)
        if ask in (signal.SIGTERM, signal.SIGHUP):
            removed = removed or ask == signal.SIGTERM
            cgroup.kill(spec.cgroup)
            with contextlib.suppress(ProcessLookupError):
                os.kill(nspawn, signal.SIGKILL)
        elif ask == signal.SIGUSR2:
            os.kill(nspawn, signal.SIGTERM)
        pid, status = os.waitpid(nspawn, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            log(f"the host ended, nspawn's status {code}")
            return code, removed


def _await_signal(deadline: float | None) -> signal.Signals | None:
    """The next signal that means something to a host that is off; None at the deadline."""
    wanted = (signal.SIGTERM, signal.SIGUSR1) if deadline is None else (signal.SIGTERM, signal.SIGHUP)
    while True:
        left = 3600.0 if deadline is None else max(0.0, deadline - time.monotonic())
        got = signal.sigtimedwait(_SIGNALS, left)
        if got is not None and got.si_signo in wanted:
            return signal.Signals(got.si_signo)
        if got is None and deadline is not None:
            return None


def publish(folder: str, state: str, boot: int) -> None:
    """state: on, rebooting, off. boot counts from 1."""
    replace_file(f"{folder}/run.json", json.dumps({"state": state, "boot": boot}))
    log(f"{state}, boot {boot}")


def call(*argv: str) -> None:
    """Runs a tool; its messages go to the keeper's log."""
    pid = os.posix_spawnp(argv[0], argv, os.environ)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(f"{' '.join(argv)}: exit status {code}")


def _mount_tmpfs(folder: str, size: str) -> None:
    call("mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder)


def log(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


if __name__ == "__main__":
    main(sys.argv[1])
