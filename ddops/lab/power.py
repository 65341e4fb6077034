"""Switches hosts that exist on and off, as a hand at the machine would."""

import signal
import subprocess
import sys
from pathlib import Path

import ddops
from ddops.lab.errors import LabError
from ddops.lab.host import KEEPER, Host, processes, runs
from ddops.lab.waiting import until


def launch_keeper(host: Host) -> None:
    """Starts the host's keeper, which boots the host; nothing where one is alive."""
    if processes(KEEPER, host.folder):
        return
    (host.folder / "run.json").unlink(missing_ok=True)
    pid = spawn_module(KEEPER, host, "keeper.log").pid
    (host.folder / "keeper.pid").write_text(str(pid))


def spawn_module(
    module: str, host: Host, log: str, *args: str, prefix: tuple[str, ...] = (), stdout: int | None = None
) -> subprocess.Popen[bytes]:
    """Starts `module` for the host as a process that outlives this one."""
    with (host.folder / log).open("a") as out:
        # -S and -P: no site-packages and nothing from the current folder
        argv = [*prefix, sys.executable, "-S", "-P", "-m", module, str(host.folder), *args]
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out if stdout is None else stdout,
            stderr=out,
            start_new_session=True,
            cwd="/",
            env={
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "PYTHONPATH": str(Path(ddops.__file__).parent.parent),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
    # for an instant after exec the kernel shows no command line, and others would see no keeper
    until(lambda: process.poll() is not None or runs(process.pid, module, host.folder), 5.0)
    return process


def start(host: Host) -> None:
    """Powers on a host that is off; any other is left as it is."""
    if host.state == "off":
        host.send(signal.SIGUSR1)


def shut_down(host: Host) -> None:
    """Asks for a clean shutdown, as a power button does."""
    if host.state == "on":
        host.send(signal.SIGUSR2)


def cut_power(host: Host) -> None:
    """Kills the whole host at once. What was not synced to an ext4 disk may be lost."""
    if host.state not in ("off", "dead"):
        host.send(signal.SIGHUP)


def await_off(host: Host, seconds: float = 90.0) -> None:
    """Raises LabError where the host is not off in time."""
    if not until(lambda: host.state in ("off", "dead"), seconds):
        raise LabError(
            f"{host.name} is still {host.state} after {seconds:g} s",
            f"its console: {last_line(host.folder / 'console.log')}",
            f"ddops lab crash {host.name}",
        )


def await_ssh(host: Host, after_boot: int = 0, seconds: float = 90.0) -> None:
    """Waits until a boot later than `after_boot` serves ssh; raises LabError where it does not."""

    def settled() -> bool:
        if host.state == "dead":
            return True
        return host.state == "on" and host.boot > after_boot and host.listens()

    if until(settled, seconds) and host.state != "dead":
        return
    if not host.exists:
        raise LabError(f"{host.name} is gone", "it was taken down", f"ddops lab up {host.name}")
    dead = host.state == "dead"
    log = host.folder / ("keeper.log" if dead else "console.log")
    raise LabError(
        f"{host.name} did not start" if dead else f"{host.name} serves no ssh after {seconds:g} s",
        last_line(log) or f"it is {host.state}",
        f"read {log}, then run: ddops lab down {host.name}",
    )


def last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1] if lines else ""
