"""`ddops lab`: real Linux test hosts on this machine."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import data, say

if TYPE_CHECKING:
    from ddops.lab.lab import HostStatus, Lab
    from ddops.lab.options import Bind

app = typer.Typer(
    name="lab",
    help="Boot real Linux test hosts on this machine: systemd, journald, sshd.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The host.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="One host or more.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
# arguments behind NAME belong to the command that runs in the host
_PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@app.command()
def deps(as_json: Json = False) -> None:
    """Install the Debian packages that a lab needs on this machine."""
    from ddops.lab import deps as lab_deps

    installed = lab_deps.install(_report)
    _done(f"installed: {' '.join(installed) or 'nothing was missing'}", {"installed": installed}, as_json)


@app.command()
def build(
    force: Annotated[bool, typer.Option("--force", help="Build anew what is there.")] = False,
    as_json: Json = False,
) -> None:
    """Build the root file system that all hosts share."""
    folder = str(_lab().build(force))
    _done(f"ready: {folder}", {"rootfs": folder}, as_json)


@app.command()
def engine(as_json: Json = False) -> None:
    """Build the CPU engine and the model that hosts serve with (3 GB, minutes, once)."""
    from ddops.lab import deps as lab_deps
    from ddops.lab import engine as lab_engine

    config = _lab().config
    lab_engine.must_fit(config.distribution)
    lab_deps.install(_report)
    cache = config.cache
    lab_engine.build(cache, _report)
    _done("ready: hosts that are made from now on have it", {"binds": lab_engine.binds(cache)}, as_json)


@app.command()
def demo(as_json: Json = False) -> None:
    """Run the main job on a fresh lab host with the real SGLang: adopt, deploy, two drills."""
    from ddops.lab import demo as lab_demo

    seconds = lab_demo.run(_lab(), _report)
    _done(f"all of it happened, in {seconds:.0f} s", {"happened": True, "seconds": round(seconds, 1)}, as_json)


@app.command()
def up(
    names: Names,
    disk: Annotated[
        str, typer.Option(metavar="KIND:SIZE", help="The host's disk: tmpfs:SIZE or ext4:SIZE.")
    ] = "tmpfs:2G",
    mem: Annotated[str, typer.Option(metavar="SIZE", help="Memory limit of the host.")] = "",
    bind: Annotated[
        list[str] | None, typer.Option(metavar="SRC[:DST]", help="Show a path to the host, read-only.")
    ] = None,
    reboot_delay: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time that the host stays away in a reboot.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Make and boot hosts, and wait until they serve ssh."""
    from ddops.lab.options import Bind, Disk, HostOptions

    lab = _lab()
    binds = (*_engine_binds(lab), *(Bind.parse(text) for text in bind or []))
    options = HostOptions(Disk.parse(disk), mem, binds, reboot_delay)
    hosts = lab.up(*names, options=options)
    _report(f"hint: ssh -F {lab.config.ssh_config} {names[0]}; ddops lab demo does the main job on one with an engine")
    if as_json:
        _print_json(hosts)


@app.command()
def down(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Hosts to remove.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all hosts and the network.")] = False,
    as_json: Json = False,
) -> None:
    """Remove hosts with all they left."""
    if bool(names) == everything:
        raise typer.BadParameter("give names, or --all")
    removed = _lab().down(*(names or []), all=everything)
    _done(f"removed: {' '.join(removed) or 'nothing'}", {"removed": removed}, as_json)


@app.command("list")
def list_hosts(as_json: Json = False) -> None:
    """Show the hosts and their states."""
    hosts = _lab().hosts()
    if as_json:
        _print_json(hosts)
        return
    if not hosts:
        _report("no hosts\n\nhint: ddops lab up NAME")
        return
    width = max(len(host.name) for host in hosts)
    for host in hosts:
        row = f"{host.name:{width}}  {host.address:15}  {host.state:9}  {host.disk:10}  {host.memory}"
        data(row.rstrip())


@app.command()
def start(names: Names, as_json: Json = False) -> None:
    """Power on hosts that are off."""
    _each(names, lambda lab: lab.start(*names), "on", as_json)


@app.command()
def stop(names: Names, as_json: Json = False) -> None:
    """Shut hosts down cleanly."""
    _each(names, lambda lab: lab.stop(*names), "off", as_json)


@app.command()
def crash(names: Names, as_json: Json = False) -> None:
    """Cut the hosts' power; their disks stay."""
    _each(names, lambda lab: lab.crash(*names), "off, without a shutdown", as_json)


@app.command()
def reboot(names: Names, as_json: Json = False) -> None:
    """Reboot hosts from inside."""
    _each(names, lambda lab: lab.reboot(*names), "up again", as_json)


@app.command()
def cut(name: Name, as_json: Json = False) -> None:
    """Pull the host's network cable."""
    _each([name], lambda lab: lab.cut(name), "cut off", as_json)


@app.command()
def blackhole(name: Name, as_json: Json = False) -> None:
    """Lose every packet while the link stays up."""
    _each([name], lambda lab: lab.blackhole(name), "in a black hole", as_json)


@app.command()
def rate(
    name: Name,
    limit: Annotated[str, typer.Argument(metavar="RATE", help="Such as 1mbit.")],
    as_json: Json = False,
) -> None:
    """Limit the traffic to the host."""
    _each([name], lambda lab: lab.rate(name, limit), f"limited to {limit}", as_json)


@app.command()
def delay(
    name: Name,
    milliseconds: Annotated[float, typer.Argument(metavar="MS", help="Milliseconds, each way.")],
    loss: Annotated[float, typer.Argument(metavar="LOSS", help="Percent of packets to lose.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Delay the host's packets each way, and lose some."""
    said = f"delayed by {milliseconds:g} ms each way, loss {loss:g} %"
    _each([name], lambda lab: lab.delay(name, milliseconds, loss), said, as_json)


@app.command()
def heal(name: Name, as_json: Json = False) -> None:
    """Undo cut, blackhole, rate and delay."""
    _each([name], lambda lab: lab.heal(name), "healed", as_json)


@app.command(context_settings=_PASS_ON)
def ssh(
    name: Name,
    command: Annotated[list[str] | None, typer.Argument(metavar="CMD", help="As for ssh.")] = None,
) -> None:
    """Log in to a host as root, or run a command there."""
    from ddops.lab.inside import ssh_command

    argv = ssh_command(_lab().host(name), *(command or []))
    os.execvp(argv[0], argv)  # noqa: S606


@app.command("exec", context_settings=_PASS_ON)
def exec_(
    name: Name,
    command: Annotated[list[str], typer.Argument(metavar="CMD", help="The command and its arguments.")],
) -> None:
    """Run a command in a host without its network or sshd."""
    from ddops.lab.inside import exec_command

    argv = exec_command(_lab().host(name), *(command[1:] if command[0] == "--" else command))
    os.execvp(argv[0], argv)  # noqa: S606


def _lab() -> "Lab":
    from ddops.lab.config import LabConfig
    from ddops.lab.lab import Lab

    return Lab(LabConfig.from_environment(), _report)


def _engine_binds(lab: "Lab") -> "list[Bind]":
    """The engine and model that were built into the cache, if any."""
    from ddops.lab import engine
    from ddops.lab.options import Bind

    if not engine.fits(lab.config.distribution):
        return []
    found = [Bind(Path(source), target) for source, target in engine.binds(lab.config.cache)]
    return [bind for bind in found if bind.source.exists()]


def _each(names: list[str], act: "Callable[[Lab], Any]", said: str, as_json: bool) -> None:
    lab = _lab()
    act(lab)
    for name in names:
        _report(f"{name} is {said}")
    if as_json:
        _print_json([host for host in lab.hosts() if host.name in names])


def _done(said: str, value: Any, as_json: bool) -> None:
    _report(said)
    if as_json:
        data(json.dumps(value, indent=2))


def _report(text: str) -> None:
    say(text)


def _print_json(hosts: "list[HostStatus]") -> None:
    data(json.dumps([asdict(host) for host in hosts], indent=2))
