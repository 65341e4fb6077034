"""Releases arrive whole or not at all; pointers name exactly one."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from ddops.agent import carried, releases
from ddops.agent.errors import Locked, Refused
from ddops.agent.layout import Layout, layout_of


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return layout_of("lab", tmp_path / "state", tmp_path / "run")


def packed(files: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(data), "/etc/passwd"
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def manifest(number: int, files: dict[str, bytes]) -> bytes:
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return json.dumps(
        {"release": number, "unit": f"lab-{number:04d}.service", "engine": {"port": 1}, "files": hashes}
    ).encode()


FILES = {"lab-0001.service": b"[Unit]\n", "overlay/pkg/a.py": b"x = 1\n"}


def test_a_release_arrives_whole(layout: Layout) -> None:
    release = releases.unpack(layout, packed(FILES), manifest(1, FILES))
    assert releases.problems(release) == []
    assert releases.numbers(layout) == [1]
    assert releases.next_number(layout) == 2
    assert (release.directory / "overlay/pkg").stat().st_mode & 0o777 == 0o755
    assert (release.directory / "lab-0001.service").stat().st_mode & 0o777 == 0o600


def test_an_overlay_that_the_host_has_need_not_travel_again(layout: Layout) -> None:
    first = releases.unpack(layout, packed(FILES), manifest(1, FILES))
    files = {"lab-0002.service": b"[Unit]\n", "overlay/pkg/a.py": FILES["overlay/pkg/a.py"]}
    held = releases.overlay_held(first)
    assert held == carried.digest(json.loads(manifest(2, files))["files"])
    assert held != carried.digest(json.loads(manifest(2, {"overlay/pkg/a.py": b"x = 2\n"}))["files"])

    own = packed({"lab-0002.service": b"[Unit]\n"})
    release = releases.unpack(layout, own, manifest(2, files), overlay_of=1)
    assert releases.problems(release) == []
    assert (release.directory / "overlay/pkg/a.py").read_bytes() == b"x = 1\n"
    assert (release.directory / "overlay/pkg/a.py").stat().st_mode & 0o777 == 0o644
    assert (release.directory / "overlay/pkg").stat().st_mode & 0o777 == 0o755

    (first.directory / "overlay/pkg/a.py").write_bytes(b"x = 9\n")
    assert releases.overlay_held(first) == "", "what is damaged is not used again"
    with pytest.raises(Refused, match="does not match"):
        releases.unpack(layout, packed({"lab-0003.service": b""}), manifest(3, FILES), overlay_of=1)
    assert releases.numbers(layout) == [1, 2]


@pytest.mark.parametrize("name", ["/etc/passwd", "../../escape", "a/../../b"])
def test_an_archive_cannot_leave_its_folder(layout: Layout, name: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="unsafe member"):
        releases.unpack(layout, packed({name: b"x"}), manifest(1, {}))
    assert releases.numbers(layout) == []
    assert not list(layout.releases.glob(".incoming*"))
    assert not (tmp_path / "escape").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_an_archive_holds_nothing_but_files(layout: Layout, kind: bytes) -> None:
    with pytest.raises(Refused, match="unsafe member"):
        releases.unpack(layout, packed({"a": b""}, kind), manifest(1, {}))


def test_an_archive_that_differs_from_its_manifest_is_refused(layout: Layout) -> None:
    with pytest.raises(Refused, match="does not match"):
        releases.unpack(layout, packed({**FILES, "lab-0001.service": b"other"}), manifest(1, FILES))
    assert releases.numbers(layout) == []


def test_a_plan_for_another_number_is_refused(layout: Layout) -> None:
    releases.unpack(layout, packed(FILES), manifest(1, FILES))
    with pytest.raises(Locked, match="the host expects 2"):
        releases.unpack(layout, packed(FILES), manifest(1, FILES))


def test_a_changed_file_is_a_problem(layout: Layout) -> None:
    release = releases.unpack(layout, packed(FILES), manifest(1, FILES))
    (release.directory / "lab-0001.service").write_text("edited")
    (release.directory / "overlay/pkg/a.py").unlink()
    assert len(releases.problems(release)) == 2


def test_a_pointer_to_a_release_that_was_exchanged_is_refused(layout: Layout) -> None:
    release = releases.unpack(layout, packed(FILES), manifest(1, FILES))
    releases.point(layout.known_good, release)
    assert releases.pointed(layout, layout.known_good) == release
    path = release.directory / "manifest.json"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(Refused, match="not the one that known-good was set to"):
        releases.pointed(layout, layout.known_good)


def test_a_damaged_pointer_is_refused_with_the_way_out(layout: Layout) -> None:
    layout.root.mkdir(parents=True)
    layout.known_good.write_text('{"rel')
    with pytest.raises(Refused) as caught:
        releases.pointed(layout, layout.known_good)
    assert "rollback --to" in caught.value.hint


@pytest.mark.parametrize("name", ["", "a", "A", "-a", "a-", "a/b", "a b", "a%i", "x" * 60, "ä"])
def test_a_hostile_service_name_is_refused(name: str) -> None:
    with pytest.raises(Refused):
        layout_of(name)
