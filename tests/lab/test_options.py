"""What a user types for a host is checked before anything is made."""

from dataclasses import replace
from pathlib import Path

import pytest

from ddops.lab.config import LabConfig
from ddops.lab.errors import LabError
from ddops.lab.host import Host
from ddops.lab.lab import Lab
from ddops.lab.options import Bind, Disk, HostOptions


@pytest.mark.parametrize("text", ["tmpfs:512M", "ext4:4G", "tmpfs:1048576"])
def test_disk_reads_what_it_shows(text: str) -> None:
    assert str(Disk.parse(text)) == text


@pytest.mark.parametrize("text", ["", "tmpfs", "tmpfs:", "xfs:1G", "tmpfs:0", "tmpfs:1T", "ext4:1G,ro"])
def test_a_bad_disk_is_refused(text: str) -> None:
    with pytest.raises(LabError, match="not a disk"):
        Disk.parse(text)


def test_a_bind_without_target_keeps_its_path(tmp_path: Path) -> None:
    assert Bind.parse(str(tmp_path)) == Bind(tmp_path, str(tmp_path))
    assert Bind.parse(f"{tmp_path}:/opt/x") == Bind(tmp_path, "/opt/x")


def test_a_bad_bind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="does not exist"):
        Bind.parse(f"{tmp_path}/none:/opt/x")
    with pytest.raises(LabError, match="not an absolute path"):
        Bind.parse(f"{tmp_path}:opt")


def test_bad_options_are_refused() -> None:
    with pytest.raises(LabError, match="memory"):
        HostOptions(memory="much")
    with pytest.raises(LabError, match="negative"):
        HostOptions(reboot_delay=-1)


@pytest.mark.parametrize("net", ["10.213", "10.213.77.1", "10.213.256", "a.b.c", ""])
def test_a_bad_network_is_refused(tmp_path: Path, net: str) -> None:
    with pytest.raises(LabError, match="not a lab network"):
        LabConfig(tmp_path, tmp_path, net)


def test_a_folder_that_overlayfs_cannot_take_is_refused() -> None:
    with pytest.raises(LabError, match="overlayfs"):
        LabConfig(Path("/a:b"), Path("/c"))


@pytest.mark.parametrize("name", ["", "A", "1a", "../x", "a b", "a" * 32])
def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LabError, match="not a host's name"):
        Host(LabConfig(tmp_path, tmp_path), name)


def test_link_names_fit_the_kernel(tmp_path: Path) -> None:
    config = LabConfig(tmp_path, tmp_path, "255.255.255")
    assert len(f"{config.tag}-254") <= 15
    assert len(config.bridge) <= 15


def test_the_environment_names_the_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("DDOPS_LAB_DIR", raising=False)
    monkeypatch.setenv("DDOPS_LAB_CACHE", str(tmp_path / "built"))
    monkeypatch.setenv("DDOPS_LAB_NET", "10.1.2")
    monkeypatch.delenv("DDOPS_LAB_DISTRIBUTION", raising=False)
    config = LabConfig.from_environment()
    assert config == LabConfig(tmp_path / "state/ddops/lab", tmp_path / "built", "10.1.2")
    monkeypatch.setenv("DDOPS_LAB_DISTRIBUTION", "noble")
    assert LabConfig.from_environment().distribution == "noble"
    monkeypatch.setenv("DDOPS_LAB_DISTRIBUTION", "squeeze")
    with pytest.raises(LabError, match="not a distribution of lab hosts: 'squeeze'"):
        LabConfig.from_environment()


def test_a_lab_that_cannot_be_made_says_which_variable_would_help(lab: Lab, booted: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is another lab's") as caught:
        Lab(replace(lab.config, state=tmp_path)).up("zz")
    assert "DDOPS_LAB_NET" in caught.value.hint
    assert not list((tmp_path / "hosts").iterdir()), "nothing is half made"
    with pytest.raises(LabError, match="cannot write to /proc/none") as caught:
        Lab(replace(lab.config, state=Path("/proc/none"))).up("zz")
    assert "DDOPS_LAB_DIR" in caught.value.hint
    assert lab.exec(booted, "true").returncode == 0
