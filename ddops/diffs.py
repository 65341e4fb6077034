"""The site's own patches: a folder of unified diffs, pinned to one SGLang and to every file before and after."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

from . import config, overlay
from .agent.unified_diff import DiffError, parse
from .config import Strict
from .errors import UsageError
from .remote import Agent
from .site import OverlayEntry, Site

PINS = "pins.yaml"
_HEAD = "# Written by ddops overlay pin: the SGLang that the diffs are for, and sha256 of each file before and after.\n"
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Pin(Strict):
    """sha256 of a file before and after; null where there is none."""

    before: Digest | None
    after: Digest | None


class Pins(Strict):
    sglang: str
    files: dict[str, Pin] = Field(min_length=1)


@dataclass(frozen=True)
class Diffs:
    """Diffs by their names in a release, and what they are pinned to."""

    texts: dict[str, bytes]
    pins: Pins

    def tree(self) -> dict[str, Any]:
        """Returns what a release's manifest says of its copy of SGLang."""
        return {**self.pins.model_dump(), "diffs": {n: hashlib.sha256(t).hexdigest() for n, t in self.texts.items()}}

    def about(self) -> dict[str, Any]:
        """Returns the same with the texts, for a host that is asked whether they fit."""
        return {**self.pins.model_dump(), "texts": {name: text.decode() for name, text in self.texts.items()}}


def of(site: Site) -> Diffs | None:
    """Returns the site's diffs, None where it names none; raises UsageError for a folder that is wrong."""
    return load(Path(site.overlay.diffs)) if site.overlay.diffs else None


def load(folder: Path) -> Diffs:
    """Returns a folder's diffs with their pins; raises UsageError where they do not belong together."""
    found, path = texts(folder), folder / PINS
    hint = f"ddops overlay pin {folder}, after reading the diffs"
    if not path.is_file():
        raise UsageError(f"{path} is not there", "diffs are applied to what they were made for alone", hint)
    pins = config.read(path, Pins)
    touched = {part.path for name, text in found.items() for part in _parsed(name, text)}
    if differ := touched ^ pins.files.keys():
        raise UsageError(f"{path} is not of these diffs", f"one of them alone has: {', '.join(sorted(differ))}", hint)
    return Diffs(found, pins)


def texts(folder: Path) -> dict[str, bytes]:
    """Returns a folder's diffs by their names in a release; raises UsageError where there are none, or one is wrong."""
    try:
        found = {f"diffs/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.diff"))}
    except OSError as error:
        raise UsageError(f"cannot read the diffs in {folder}", error.strerror or str(error)) from None
    if not found:
        why = "files that end in .diff are wanted" if folder.is_dir() else "there is no such folder"
        raise UsageError(
            f"no diffs in {folder}", why, "name the folder of your diffs: overlay.diffs, or overlay pin DIR"
        )
    for name, text in found.items():
        _parsed(name, text)
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{name} is no text", str(error)) from None
    return found


def _parsed(name: str, text: bytes) -> list[Any]:
    try:
        return list(parse(text))
    except DiffError as error:
        raise UsageError(
            f"{name} is no diff that can be applied", str(error), "git diff and diff -u write them"
        ) from None


def pin(agent: Agent, python: str, folder: Path) -> tuple[Path, Pins]:
    """Writes what the diffs make of a host's SGLang beside them; raises Refused where they do not fit it."""
    found = {name: text.decode() for name, text in texts(folder).items()}
    pins = Pins.model_validate(agent.ask("pins", python=python, diffs=found))
    path = folder / PINS
    try:
        path.write_text(_HEAD + yaml.safe_dump(pins.model_dump(), sort_keys=True))
    except OSError as error:
        raise UsageError(f"cannot write {path}", error.strerror or str(error)) from None
    return path, pins


def fit(site: Site) -> dict[str, Any]:
    """Returns what a host is asked to find out whether all that changes SGLang fits it."""
    found = of(site)
    return {
        "python": site.engine.python,
        "pins": overlay.pins() if site.overlay.plugin else None,
        "tree": found.about() if found else None,
    }


def identity(entry: OverlayEntry, found: Diffs | None) -> str:
    """Returns the sha256 that tells one overlay from another: the plug-in's own, unless diffs are added."""
    if found is None and entry.plugin:
        return overlay.sha256()
    digest = hashlib.sha256(f"{overlay.sha256() if entry.plugin else 'none'}\0".encode())
    for name, text in sorted(found.texts.items() if found else []):
        digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()
