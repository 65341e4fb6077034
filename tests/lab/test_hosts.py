"""Lab hosts are what the other tests stand on: each promise of `ddops lab` on real hosts."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from ddops.lab import cgroup, network
from ddops.lab.config import LabConfig
from ddops.lab.errors import LabError
from ddops.lab.lab import Lab
from ddops.lab.options import Bind, Disk, HostOptions

from .conftest import Until

pytestmark = pytest.mark.lab


def output(*args: str) -> list[str]:
    return subprocess.run(args, capture_output=True, text=True, check=True).stdout.splitlines()


def traces(config: LabConfig) -> dict[str, list[str]]:
    """All that a lab could leave on this machine.

    Links, routes, mounts and /run are compared as a whole, but for what other labs have there
    at the same time. Groups and processes come and go on any machine: only the lab's own count.
    """
    other = re.compile(rf"\b(?!{config.tag})dl[0-9a-f]{{6}}|unreachable (?!{re.escape(config.net)}\.)")
    links = [line.split(": ")[1] for line in output("ip", "-o", "link") if ": " in line]
    routes = output("ip", "route", "show", "table", "all")
    commands = [
        path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists()
    ]
    return {
        "links": [name for name in links if not other.search(name)],
        "routes": [route for route in routes if not other.search(route)],
        "mounts": Path("/proc/self/mounts").read_text().splitlines(),
        "loops": output("losetup", "--list", "--noheadings", "--output", "BACK-FILE"),
        "namespaces": output("ip", "netns", "list"),
        "run": sorted(p.name for p in Path("/run").iterdir() if p.name != "ddops-lab"),
        "run/systemd": sorted(str(p) for p in Path("/run/systemd").rglob("*")),
        "labs": [str(p) for p in Path("/run/ddops-lab/labs").glob(config.tag)],
        "groups": [str(config.cgroup)] if cgroup.exists(config.cgroup) else [],
        "processes": [command for command in commands if str(config.state) in command],
        "hosts": sorted(str(p) for p in config.hosts.rglob("*")),
    }


def inotify_limit() -> str:
    return Path("/proc/sys/fs/inotify/max_user_instances").read_text()


# first: the session's lab does not exist yet, so this one is the last to leave
def test_down_leaves_nothing(other_lab: Lab, until: Until) -> None:
    config = other_lab.config
    before, limit = traces(config), inotify_limit()
    alone = not Path("/run/ddops-lab").exists()

    other_lab.up("file", options=HostOptions(Disk("ext4", "256M"), memory="512M", reboot_delay=60))
    other_lab.up("slow", "killed", "half")
    other_lab.delay("slow", 5)
    # a keeper that was killed, one of which no file tells, one that waits in a reboot
    os.kill(other_lab.host("killed").keeper, signal.SIGKILL)
    (other_lab.host("half").folder / "keeper.pid").unlink()
    (config.hosts / ".new-torn").mkdir()
    other_lab.exec("file", "systemctl", "reboot")
    until(lambda: other_lab.host("file").state == "rebooting", 30)
    during = traces(config)
    assert during["links"] != before["links"]
    assert during["loops"] != before["loops"]
    assert during["processes"]

    assert sorted(other_lab.down(all=True)) == ["file", "half", "killed", "slow"]
    assert traces(config) == before
    if alone:
        assert not Path("/run/ddops-lab").exists()
        assert inotify_limit() == limit


def test_down_without_hosts_is_no_error(other_lab: Lab) -> None:
    before = traces(other_lab.config)
    assert other_lab.down(all=True) == []
    assert other_lab.down("nobody") == []
    assert traces(other_lab.config) == before


def test_a_namespace_of_its_own_goes_too(other_lab: Lab) -> None:
    config = LabConfig(other_lab.config.state, other_lab.config.cache, other_lab.config.net, "ddops-lab-test")
    before = traces(config)
    lab = Lab(config)
    try:
        lab.up("inner")
        assert lab.ssh("inner", "hostname").stdout == "inner\n"
        assert config.bridge not in traces(config)["links"]
        lab.delay("inner", 1)
        assert lab.ssh("inner", "hostname").stdout == "inner\n"
    finally:
        lab.down(all=True)
    assert traces(config) == before


def test_ssh_checks_the_host_key(lab: Lab, booted: str) -> None:
    done = lab.ssh(booted, "hostname")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{booted}\n", "")

    known = lab.config.known_hosts
    right = known.read_text()
    other_key = (lab.config.key.with_suffix(".pub")).read_text().split()[1]
    known.write_text(re.sub(r"\S+$", other_key, right, flags=re.M))
    try:
        assert "Host key verification failed" in lab.ssh(booted, "true").stderr
        known.write_text("")
        assert "Host key verification failed" in lab.ssh(booted, "true").stderr
    finally:
        known.write_text(right)


def test_a_host_is_a_whole_system(lab: Lab, booted: str) -> None:
    state = lab.exec(booted, "systemctl", "is-system-running", "--wait")
    assert state.stdout == "running\n", lab.exec(booted, "systemctl", "--failed").stdout
    assert lab.exec(booted, "test", "-e", "/etc/ddops-lab").returncode == 0
    assert lab.ssh(booted, "-l", "ops", "id -un; sudo id -un").stdout == "ops\nroot\n"
    assert lab.exec(booted, "journalctl", "--boot", "--unit=ssh", "--quiet").stdout


def test_up_twice_changes_nothing(lab: Lab, booted: str) -> None:
    first = lab.exec(booted, "stat", "-c", "%x", "/proc/1").stdout
    before = lab.hosts()
    lab.up(booted, options=HostOptions(Disk("tmpfs", "64M")))
    assert lab.hosts() == before
    assert lab.exec(booted, "stat", "-c", "%x", "/proc/1").stdout == first


def test_reboot_keeps_the_disk_and_the_journal(lab: Lab, booted: str) -> None:
    lab.exec(booted, "sh", "-c", "echo kept >/var/lib/word; logger -t lab before-reboot")
    old = lab.host(booted).boot
    lab.reboot(booted)
    assert lab.host(booted).boot == old + 1
    assert lab.ssh(booted, "cat /var/lib/word").stdout == "kept\n"
    said = lab.exec(booted, "journalctl", "--boot=-1", "--identifier=lab", "--output=cat").stdout
    assert "before-reboot" in said


@pytest.mark.parametrize("disk", ["tmpfs:256M", "ext4:256M"])
def test_a_power_cut_keeps_the_disk(lab: Lab, disk: str) -> None:
    name = f"cut-{disk.split(':')[0]}"
    lab.up(name, options=HostOptions(Disk.parse(disk)))
    try:
        assert lab.exec(name, "sh", "-c", "echo kept >/var/lib/word; sync").returncode == 0
        lab.crash(name)
        assert lab.host(name).state == "off"
        assert lab.ssh(name, "-o", "ConnectTimeout=1", "true").returncode == 255
        lab.start(name)
        assert lab.ssh(name, "cat /var/lib/word").stdout == "kept\n"
        size = int(lab.exec(name, "df", "--output=size", "-BM", "/").stdout.split()[1].rstrip("M"))
        assert 200 <= size <= 256
    finally:
        lab.down(name)


def test_a_power_cut_while_rebooting(lab: Lab, until: Until) -> None:
    name = "away"
    lab.up(name, options=HostOptions(reboot_delay=60))
    try:
        lab.exec(name, "systemctl", "reboot")
        until(lambda: lab.host(name).state == "rebooting", 30)
        lab.crash(name)
        assert lab.host(name).state == "off"
        lab.start(name)
        assert lab.ssh(name, "hostname").stdout == f"{name}\n"
    finally:
        lab.down(name)


def test_stop_is_a_clean_shutdown(lab: Lab, booted: str) -> None:
    lab.stop(booted)
    assert lab.host(booted).state == "off"
    lab.start(booted)
    last = lab.exec(booted, "journalctl", "--boot=-1", "--output=cat").stdout
    assert "Reached target" in last
    assert "Journal stopped" in last


def test_a_cut_host_is_deaf_until_healed(lab: Lab, booted: str) -> None:
    for fault in (lab.cut, lab.blackhole):
        fault(booted)
        assert lab.ssh(booted, "-o", "ConnectTimeout=1", "true").returncode == 255
        assert lab.exec(booted, "hostname").stdout == f"{booted}\n"
        lab.heal(booted)
        assert lab.ssh(booted, "hostname").stdout == f"{booted}\n"


def test_delay_and_loss(lab: Lab, booted: str) -> None:
    def ping(count: int = 3) -> str:
        argv = ["ping", "-q", "-n", "-i", "0.05", "-W", "1", "-c", str(count), f"{lab.config.net}.1"]
        return lab.exec(booted, *argv).stdout

    lab.delay(booted, 60)
    fastest = re.search(r"= ([0-9.]+)/", ping())
    assert fastest
    assert 120 <= float(fastest[1]) < 300
    assert lab.ssh(booted, "hostname").stdout == f"{booted}\n"
    # a cable pulled and plugged again does not end the relay
    lab.cut(booted)
    assert " 100% packet loss" in ping(1)
    network.ip(lab.config, "link", "set", lab.host(booted).spec.link, "up")
    assert lab.ssh(booted, "hostname").stdout == f"{booted}\n"
    lab.delay(booted, 1, loss=100)
    assert " 100% packet loss" in ping()
    lab.heal(booted)
    assert " 0% packet loss" in ping()


def test_rate(lab: Lab, booted: str) -> None:
    lab.rate(booted, "8mbit")
    began = time.monotonic()
    argv = ["ssh", "-F", str(lab.config.ssh_config), lab.address(booted), "cat >/dev/null"]
    subprocess.run(argv, input=bytes(2 << 20), check=True)
    assert time.monotonic() - began > 1.5
    with pytest.raises(LabError, match="not a rate"):
        lab.rate(booted, "fast")


def test_two_hosts_reach_each_other(lab: Lab, booted: str) -> None:
    lab.up("beta")
    try:
        assert lab.address("beta") != lab.address(booted)
        assert lab.exec(booted, "ping", "-c1", "-W2", lab.address("beta")).returncode == 0
        ids = {lab.exec(name, "cat", "/etc/machine-id").stdout for name in (booted, "beta")}
        assert len(ids) == 2
    finally:
        lab.down("beta")


def test_nothing_of_the_lab_leaves_by_the_default_route(lab: Lab, booted: str) -> None:
    lab.up(booted)
    network.ip(lab.config, "link", "set", lab.config.bridge, "down")
    try:
        done = subprocess.run(["ip", "route", "get", lab.address(booted)], capture_output=True, text=True)
        assert done.returncode != 0
    finally:
        network.ip(lab.config, "link", "set", lab.config.bridge, "up")


def test_binds_are_read_only_and_memory_is_limited(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "word").write_text("seen\n")
    lab.up("bound", options=HostOptions(memory="256M", binds=(Bind(tmp_path, "/opt/a:b"),)))
    try:
        assert lab.exec("bound", "cat", "/opt/a:b/word").stdout == "seen\n"
        assert lab.exec("bound", "touch", "/opt/a:b/word").returncode != 0
        eat = ["systemd-run", "--wait", "--quiet", "python3", "-c", "bytearray(300 << 20)"]
        assert lab.exec("bound", *eat).returncode != 0
    finally:
        lab.down("bound")


def test_the_files_for_clients(lab: Lab, booted: str) -> None:
    site = yaml.safe_load(lab.config.site.read_text())
    assert site["hosts"][booted] == {
        "address": lab.address(booted),
        "user": "root",
        "identity_file": str(lab.config.key),
        "known_hosts": str(lab.config.known_hosts),
        "lab": True,
        "profile": "lab",
    }
    assert site["engine"] == {"python": "/opt/ddops/engine/bin/python"}
    assert site["model"] == "/opt/ddops/model"
    argv = ["ssh", "-F", str(lab.config.ssh_config), booted, "hostname"]
    assert output(*argv) == [booted]


def test_the_command_line(lab: Lab, booted: str) -> None:
    env = {
        **os.environ,
        "DDOPS_LAB_DIR": str(lab.config.state),
        "DDOPS_LAB_NET": lab.config.net,
    }

    def ddops_lab(*args: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "ddops", "lab", *args]
        return subprocess.run(argv, capture_output=True, text=True, env=env)

    listed = json.loads(ddops_lab("list", "--json").stdout)
    assert [(host["name"], host["state"]) for host in listed] == [(booted, "on")]
    assert ddops_lab("ssh", booted, "uname", "-n").stdout == f"{booted}\n"
    assert ddops_lab("exec", booted, "sh", "-c", "exit 7").returncode == 7
    unknown = ddops_lab("crash", "nobody")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "hint: ddops lab up nobody" in unknown.stderr
    assert ddops_lab("down").returncode == 2
