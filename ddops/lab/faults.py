"""Network faults of one host; `heal` undoes all of them."""

import re
import signal
import subprocess

from ddops.lab import network
from ddops.lab.errors import LabError
from ddops.lab.host import RELAY, Host, processes, send
from ddops.lab.power import last_line, spawn_module
from ddops.lab.waiting import until


def cut(host: Host) -> None:
    """Pulls the cable: the host sees its link go down."""
    network.ip(host.config, "link", "set", host.spec.link, "down")


def blackhole(host: Host) -> None:
    """Loses every packet while the link stays up, as a broken switch does."""
    stop_relay(host)
    network.ip(host.config, "link", "set", host.spec.link, "nomaster")


def rate(host: Host, rate: str) -> None:
    """Limits traffic to the host; `rate` is tc's, such as 1mbit. Raises LabError for a bad one."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?[kmg]?(bit|bps)", rate):
        raise LabError(f"not a rate: {rate!r}", "a number and tc's unit are wanted", "write 1mbit")
    shape = ["tbf", "rate", rate, "burst", "32kb", "latency", "400ms"]
    network.tc(host.config, "qdisc", "replace", "dev", host.spec.link, "root", *shape)


def delay(host: Host, milliseconds: float, loss: float = 0.0) -> None:
    """Delays every packet both ways by `milliseconds`, and loses `loss` percent of them.

    Raises LabError where a value is out of range or the relay does not start.
    """
    if milliseconds < 0 or not 0 <= loss <= 100:
        raise LabError(
            f"not a delay and loss: {milliseconds:g} ms, {loss:g} %",
            "milliseconds from 0 and percent from 0 to 100 are wanted",
            f"write: ddops lab delay {host.name} 100 1",
        )
    stop_relay(host)
    arguments = (str(host.keeper), str(milliseconds / 1000), str(loss / 100))
    prefix = tuple(network.inside(host.config))
    relay = spawn_module(RELAY, host, "relay.log", *arguments, prefix=prefix, stdout=subprocess.PIPE)
    assert relay.stdout is not None  # noqa: S101  # asked for one line above
    with relay.stdout as ready:
        # one byte when frames flow, none when it died
        if not ready.read(1):
            heal(host)
            raise LabError(
                f"no delay for {host.name}",
                last_line(host.folder / "relay.log"),
                f"read {host.folder / 'relay.log'}",
            )


def heal(host: Host) -> None:
    """Undoes every fault: relay, rate, cable."""
    stop_relay(host)
    spec = host.spec
    network.tc(host.config, "qdisc", "del", "dev", spec.link, "root", check=False)
    network.ip(host.config, "link", "set", spec.link, "master", spec.bridge, "up")


def stop_relay(host: Host) -> None:
    """Ends the host's relay and waits for its end; raises LabError where it stays."""

    def ended() -> bool:
        return not processes(RELAY, host.folder)

    for pid in processes(RELAY, host.folder):
        send(pid, RELAY, host.folder, signal.SIGTERM)
    if until(ended, 3.0):
        return
    for pid in processes(RELAY, host.folder):
        send(pid, RELAY, host.folder, signal.SIGKILL)
    if not until(ended, 3.0):
        raise LabError(f"the relay of {host.name} does not end", "it is stuck", "ddops lab down --all")
