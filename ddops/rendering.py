"""Writing a rendered release to a folder, as a host would get it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import deploy, evidence, render
from .errors import UsageError
from .evidence import Known
from .limits import Limits
from .settings import Effective

_SUPERVISOR = "ddops-supervisor@.service"


@dataclass(frozen=True)
class Written:
    """What was written, and what a plan would say of it."""

    paths: list[Path]
    words: str
    algorithm: str
    passed_over: tuple[tuple[str, str], ...]
    known: list[Known]
    limits: Limits
    overlay: str

    def as_json(self) -> dict[str, Any]:
        return {
            "files": [str(path) for path in self.paths],
            "algorithm": self.algorithm,
            "passed_over": [{"algorithm": name, "reason": reason} for name, reason in self.passed_over],
            "evidence": [entry.as_json() for entry in self.known],
            "limits": self.limits.as_json(),
            "overlay": self.overlay,
        }


def write(effective: Effective, service: str, number: int, folder: Path) -> Written:
    """Writes the release, its manifest and the supervisor's unit; raises UsageError where the folder has files."""
    _, _, site = effective.place()
    options, passed_over = deploy.options_of(effective.profile, site, deploy.Request(asked=effective.asked))
    rendered = render.release(effective.profile, site, service, options, number)
    files = {**rendered.files, "manifest.json": rendered.manifest, _SUPERVISOR: render.supervisor_unit().encode()}
    paths = []
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", "a rendered tree holds nothing else", "another folder: -o DIR")
        for name, data in sorted(files.items()):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            paths.append(path)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}", error.strerror or str(error)) from None
    return Written(
        paths=paths,
        words=options.words(),
        algorithm=options.drafting.algorithm,
        passed_over=passed_over,
        known=evidence.of_profile(effective.profile, options),
        limits=options.limits,
        overlay=rendered.as_manifest()["overlay"],
    )
