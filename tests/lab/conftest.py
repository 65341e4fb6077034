"""Fixtures that give tests real hosts.

`lab`            the session's lab (ddops.lab.lab.Lab): up, down, start, stop, crash, reboot, cut,
                 heal, blackhole, rate, delay, ssh, exec, address, hosts. It has a state folder and
                 a network of its own, so it runs beside any other lab, and is taken down at the end.
`other_lab`      a second one for a test that takes its lab down; gone after the test.
`booted`         the name of a host of `lab` that is up and healed, also after a test that broke it.
`until`          until(condition, seconds) waits for an event and fails the test where it stays away.

`stub`           a fresh host with a scripted engine (stub/engine.py) running as a hand-made unit.
`adopted`        the same, after `ddops adopt sglang.service`.
`served`         the same, after a deploy of budget 8: release 1 is known-good, behind the front.
`real`           a host on which the real SGLang serves on the CPU, started by hand; one for a module.

Each pytest process has networks of its own, counted from 10.213.$DDOPS_TEST_NET.0/24 (78), so test runs
and the workers of one run (pytest-xdist) stand beside each other.

All skip where the user is not root. The root file system comes from the shared cache
(DDOPS_LAB_CACHE) and is built there when it is missing.
"""

import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ddops import profile as profiles
from ddops.lab import engine, hand_made
from ddops.lab.config import LabConfig
from ddops.lab.lab import Lab
from ddops.lab.options import Bind, HostOptions
from ddops.lab.waiting import until as came_true

from . import stub_host, watching
from .service_host import ServiceHost, environment, wait_for

Until = Callable[[Callable[[], bool], float], None]


def _net(offset: int) -> str:
    """Returns the network of this process's lab 0 or 1."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return f"10.213.{int(os.environ.get('DDOPS_TEST_NET', '78')) + 2 * worker + offset}"


def _lab(factory: pytest.TempPathFactory, net: str) -> Iterator[Lab]:
    if os.geteuid():
        pytest.skip("lab hosts need root: they are systemd-nspawn containers")
    config = replace(LabConfig.from_environment(), state=factory.mktemp("lab"), net=net, netns="")
    lab = Lab(config)
    try:
        yield lab
    finally:
        lab.down(all=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to a failed test what its hosts can tell of it: they are gone afterwards."""
    report = yield
    if report.failed:
        hosts = {id(h): h for h in getattr(item, "funcargs", {}).values() if isinstance(h, ServiceHost)}
        report.sections += [(f"host {host.name}", host.last_words()) for host in hosts.values()]
    return report


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The session's lab; it has no hosts until a test asks for one."""
    yield from _lab(tmp_path_factory, _net(0))


@pytest.fixture
def other_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab for one test."""
    yield from _lab(tmp_path_factory, _net(1))


@pytest.fixture
def booted(lab: Lab) -> str:
    """Name of a host that serves ssh and whose network is whole."""
    name = "alpha"
    lab.up(name)
    lab.heal(name)
    return name


@pytest.fixture
def until() -> Until:
    """Waits for a condition; fails the test at the deadline (seconds)."""

    def wait(condition: Callable[[], bool], seconds: float) -> None:
        assert came_true(condition, seconds), f"it did not come true within {seconds:g} s"

    return wait


@pytest.fixture(scope="session")
def stub_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like an environment with SGLang and a model, and holds the scripted engine."""
    return stub_host.make_folder(tmp_path_factory.mktemp("stub"))


@pytest.fixture
def stub(request: pytest.FixtureRequest, lab: Lab, stub_folder: Path, tmp_path: Path) -> Iterator[ServiceHost]:
    """A fresh host on which the scripted engine serves at the public port, started by hand.

    A test that wants another disk gives it as the fixture's parameter.
    """
    disk = getattr(request, "param", HostOptions().disk)
    with stub_host.running(lab, stub_folder, tmp_path / "site.yaml", disk) as host:
        yield host


@pytest.fixture
def adopted(stub: ServiceHost) -> ServiceHost:
    """The same host after its unit became release 0."""
    ran = stub.ddops("adopt", "sglang.service")
    assert ran.code == 0, ran.stderr
    return stub


@pytest.fixture
def served(adopted: ServiceHost) -> ServiceHost:
    """The same host after release 1, budget 8, was promoted."""
    ran = adopted.deploy(8)
    assert ran.code == 0, ran.stderr
    return adopted


@pytest.fixture
def watched(adopted: ServiceHost) -> ServiceHost:
    """A host with release 1 as known-good, whose site has a command that is told of incidents."""
    watching.tell(adopted, command=["sh", "-c", "cat >> /run/told; echo >> /run/told"])
    ran = adopted.deploy(8)
    assert ran.code == 0, ran
    return adopted


@pytest.fixture(scope="module")
def real(lab: Lab) -> Iterator[ServiceHost]:
    """A host on which the real SGLang serves a real model on the CPU, started by hand, no speculation."""
    found = engine.binds(lab.config.cache)
    if not all(Path(source).exists() for source, _ in found):
        pytest.skip("the CPU engine is not built: ddops lab engine")
    lab.up("real", options=HostOptions(binds=tuple(Bind(Path(source), target) for source, target in found)))
    host = ServiceHost(lab, "real", environment(lab, lab.config.site))
    hand_made.start(lab, "real", profiles.load("lab"), f"{engine.ENGINE}/bin/python", engine.MODEL)
    wait_for(lambda: "Paris" in (host.ask(seconds=30) or ""), 180, "the hand-started SGLang answers")
    try:
        yield host
    finally:
        host.end_clients()
        lab.down("real")
