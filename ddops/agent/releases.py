"""Releases: immutable directories, the pointers that name them, and how one arrives."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from . import carried, durable, patched_tree, state
from .errors import Locked, Refused
from .layout import Layout

if TYPE_CHECKING:
    import tarfile

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Release:
    """One release as its manifest describes it."""

    number: int
    directory: Path
    sha256: str
    manifest: dict[str, Any]

    @property
    def unit(self) -> str:
        return str(self.manifest["unit"])

    @property
    def port(self) -> int:
        return int(self.manifest["engine"]["port"])

    @property
    def adopted(self) -> bool:
        return bool(self.manifest.get("adopted"))

    @property
    def front(self) -> dict[str, Any] | None:
        """The front's settings; None where the release owns the public port itself."""
        front = self.manifest.get("front")
        return dict(front) if front else None

    @property
    def gates(self) -> dict[str, Any]:
        return dict(self.manifest["gates"])

    @property
    def deadlines(self) -> dict[str, float]:
        return dict(self.manifest["deadlines"])

    def summary(self) -> dict[str, Any]:
        """What status and outcomes say of a release."""
        keys = ["profile", "budget", "graphs", "algorithm", "topk", "max_running", "overlay", "drill"]
        keys += ["fingerprint", "created", "by", "adopted"]
        found = {"release": self.number, "unit": self.unit, "port": self.port, "sha256": self.sha256}
        found |= {k: self.manifest[k] for k in keys if self.manifest.get(k) is not None}
        with contextlib.suppress(OSError, ValueError):  # a record beside the release, not a part of it
            if stack := durable.read_json(self.directory / "stack.json"):
                found["stack"] = stack
        return found


def load(layout: Layout, number: int) -> Release:
    """Reads a release; raises Refused where it is not there or damaged."""
    directory = layout.release_dir(number)
    try:
        data = (directory / MANIFEST).read_bytes()
        manifest = json.loads(data)
        Release(number, directory, "", manifest).summary()
    except FileNotFoundError:
        known = ", ".join(str(n) for n in numbers(layout)) or "none"
        raise Refused(f"release {number} is not on this host", f"here are: {known}", "ddops history") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"the manifest of release {number} is damaged", str(error), "ddops history") from None
    if manifest.get("format", 1) > state.FORMAT:
        raise state.too_new(layout, f"release {number}", manifest["format"], str(manifest.get("ddops", "")))
    return Release(number, directory, hashlib.sha256(data).hexdigest(), manifest)


def numbers(layout: Layout) -> list[int]:
    """Returns the numbers of the releases on this host, ascending."""
    if not layout.releases.is_dir():
        return []
    return sorted(int(p.name) for p in layout.releases.iterdir() if re.fullmatch(r"\d{4,}", p.name))


def next_number(layout: Layout) -> int:
    """Returns the number of the next release: above every one that is here or ever was."""
    counter = durable.read_json(layout.root / "sequence") or {}
    return max([int(counter.get("last", 0)), *numbers(layout)]) + 1


def problems(release: Release) -> list[str]:
    """Compares a release's files with its manifest, byte for byte; returns what differs."""
    found = _differing(release)
    if tree := release.manifest.get("tree"):
        found += patched_tree.problems(release.directory, tree)
    return found


def _differing(release: Release) -> list[str]:
    found = []
    for name, want in release.manifest["files"].items():
        path = Path(name) if release.adopted else release.directory / name
        try:
            have = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            found.append(f"{path}: {error.strerror}")
            continue
        if have != want:
            found.append(f"{path}: sha256 {have[:12]}, the manifest says {want[:12]}")
    return found


def overlay_held(release: Release | None) -> str:
    """Returns what a release's overlay is told by, '' where there is none or it is not whole: then it must travel."""
    if release is None or release.adopted or not carried.whole(release.directory, release.manifest["files"]):
        return ""
    return carried.digest(release.manifest["files"])


def unpack(layout: Layout, archive: bytes, manifest: bytes, overlay_of: int | None = None) -> Release:
    """Stores a release: unpacked under a temporary name, verified, synced, renamed.

    The archive has no overlay where it is that of release ``overlay_of``.

    Raises Locked where its number is not the next one: another client was first. Raises Refused where the archive
    has an unsafe member, differs from the manifest, or its diffs do not fit the host's SGLang.
    """
    import tarfile  # the supervisor unpacks nothing, and does without it

    described = json.loads(manifest)
    number = int(described["release"])
    expected = next_number(layout)
    if number != expected:
        raise Locked(
            f"this plan is for release {number}, the host expects {expected}",
            "somebody else staged a release since the plan was made",
            "run the same command again",
        )
    durable.make_directory(layout.releases, 0o711)
    incoming = layout.releases / f".incoming-{number:04d}"
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir(mode=0o711)
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            for member in tar:
                _extract(tar, member, incoming)
        if overlay_of is not None:
            for name, data in carried.copies(layout.release_dir(overlay_of), described["files"]).items():
                _store(incoming, PurePosixPath(name), data)
        durable.write(incoming / MANIFEST, manifest)
        staged = Release(number, incoming, "", described)
        if wrong := _differing(staged):
            raise Refused("the archive does not match its manifest", "; ".join(wrong), "run the same command again")
        for path in incoming.rglob("*"):
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
            else:
                durable.sync_directory(path)
        if tree := described.get("tree"):
            patched_tree.build(incoming, described["engine"]["python"], tree, sorted(tree["diffs"]))
        durable.sync_directory(incoming)
        os.replace(incoming, layout.release_dir(number))
    except BaseException:
        shutil.rmtree(incoming, ignore_errors=True)
        raise
    durable.sync_directory(layout.releases)
    durable.write_json(layout.root / "sequence", {"last": number})
    return load(layout, number)


def must_have_room(layout: Layout, bytes_needed: int, files_needed: int) -> None:
    """Raises Refused where the disk lacks bytes or inodes for a release, with head-room."""
    disk = os.statvfs(next(path for path in (layout.releases, *layout.releases.parents) if path.exists()))
    need = 2 * bytes_needed + (16 << 20)
    if disk.f_bavail * disk.f_frsize < need:
        raise Refused(
            f"{layout.releases} has {disk.f_bavail * disk.f_frsize >> 20} MiB free, {need >> 20} MiB are needed",
            "no space for the release",
            f"free space below {layout.releases}",
        )
    if disk.f_files and disk.f_favail < files_needed + 100:
        raise Refused(
            f"{layout.releases} has {disk.f_favail} inodes free, {files_needed + 100} are needed", "", "df -i"
        )


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not (member.isreg() or member.isdir()):
        raise Refused(f"the archive holds an unsafe member: {member.name}", "", "report this")
    if member.isdir():
        _folders(into, [name, *name.parents])
        return
    source = tar.extractfile(member)
    assert source is not None  # noqa: S101 - isreg() above
    _store(into, name, source.read())


def _store(into: Path, name: PurePosixPath, data: bytes) -> None:
    _folders(into, list(name.parents))
    target = into / name
    target.write_bytes(data)
    target.chmod(0o644 if _public(name) else 0o600)


def _folders(into: Path, names: list[PurePosixPath]) -> None:
    for name in sorted(name for name in names if name.parts):
        (into / name).mkdir(exist_ok=True)
        (into / name).chmod(0o755 if _public(name) else 0o700)


def _public(name: PurePosixPath) -> bool:
    """Says whether the service's own user may read it: only the overlay; the rest is root's."""
    return name.parts[0] == "overlay"


def point(path: Path, release: Release, **more: Any) -> None:
    """Replaces a pointer file: known-good or live."""
    durable.write_json(path, {"release": release.number, "sha256": release.sha256, **more}, mode=0o644)


def pointed(layout: Layout, path: Path) -> Release | None:
    """Returns the release that a pointer names, None where there is no pointer.

    Raises Refused where the pointer is damaged or the release is not the one that was pointed to.
    """
    try:
        pointer = durable.read_json(path)
        number, sha256 = (int(pointer["release"]), str(pointer["sha256"])) if pointer is not None else (0, "")
    except (OSError, ValueError, KeyError, TypeError):
        raise Refused(
            f"the pointer {path} is damaged", "it does not name a release", "name the release: ddops rollback --to N"
        ) from None
    if pointer is None:
        return None
    release = load(layout, number)
    if release.sha256 != sha256:
        raise Refused(
            f"release {release.number} is not the one that {path.name} was set to",
            f"its manifest has sha256 {release.sha256[:12]}, the pointer says {sha256[:12]}",
            "name another release: ddops rollback --to N",
        )
    return release


def pointed_if_whole(layout: Layout, path: Path) -> Release | None:
    """As ``pointed``, but a damaged pointer or release is None: it must not stand in the way of a way back."""
    try:
        return pointed(layout, path)
    except Refused:
        return None
