"""Fixtures that give tests real hosts.

`lab`            the session's lab (ddops.lab.lab.Lab): up, down, start, stop, crash, reboot, cut,
                 heal, blackhole, rate, delay, ssh, exec, address, hosts. It has a state folder and
                 a network of its own, so it runs beside any other lab, and is taken down at the end.
`other_lab`      a second one for a test that takes its lab down; gone after the test.
`booted`         the name of a host of `lab` that is up and healed, also after a test that broke it.
`until`          until(condition, seconds) waits for an event and fails the test where it stays away.

All skip where the user is not root. The root file system comes from the shared cache
(DDOPS_LAB_CACHE) and is built there when it is missing.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from ddops.lab.config import LabConfig
from ddops.lab.lab import Lab
from ddops.lab.waiting import until as came_true

Until = Callable[[Callable[[], bool], float], None]


def _lab(factory: pytest.TempPathFactory, net: str) -> Iterator[Lab]:
    if os.geteuid():
        pytest.skip("lab hosts need root: they are systemd-nspawn containers")
    config = replace(LabConfig.from_environment(), state=factory.mktemp("lab"), net=net, netns="")
    lab = Lab(config)
    try:
        yield lab
    finally:
        lab.down(all=True)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The session's lab; it has no hosts until a test asks for one."""
    yield from _lab(tmp_path_factory, "10.213.78")


@pytest.fixture
def other_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab for one test."""
    yield from _lab(tmp_path_factory, "10.213.79")


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
