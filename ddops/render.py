"""Rendering a release: everything a host gets, as bytes, from a profile, a site and the options of a deploy."""

from __future__ import annotations

import getpass
import hashlib
import io
import json
import platform
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import jinja2

from . import __version__, overlay, quoting, resources
from .profile import Profile
from .site import Site

_ROOT = "/var/lib/ddops"


@dataclass(frozen=True)
class Options:
    """What a deploy asks for beyond the profile's defaults."""

    budget: int
    graphs: bool
    drill: dict[str, Any] | None = None


@dataclass(frozen=True)
class Rendered:
    """A release as it travels: its files, its manifest, and what tells it from another."""

    number: int
    files: dict[str, bytes]
    manifest: bytes
    fingerprint: str

    def archive(self) -> bytes:
        """Returns the files as one reproducible tar.gz."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6, format=tarfile.PAX_FORMAT) as tar:
            for name, data in sorted(self.files.items()):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return packed.getvalue()


def requester() -> str:
    """Returns who asks, for locks and ledgers: user@machine."""
    return f"{getpass.getuser()}@{platform.node()}"


def verify_width(budget: int) -> int:
    """Returns the query tokens per request and verify step: the root and ``budget`` nodes."""
    return budget + 1


def release(profile: Profile, site: Site, service: str, options: Options, number: int) -> Rendered:
    """Renders one release. The fingerprint leaves out what differs between two releases of the same settings."""
    neutral = _files(profile, site, service, options, 0)
    fingerprint = _fingerprint(neutral, site)
    files = _files(profile, site, service, options, number)
    manifest = {
        **spec(profile, site, service),
        "release": number,
        "unit": f"{service}-{number:04d}.service",
        "created": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "by": requester(),
        "ddops": __version__,
        "budget": options.budget,
        "graphs": options.graphs,
        "drill": options.drill,
        "fingerprint": fingerprint,
        "engine": {
            "host": "127.0.0.1",
            "port": _port(profile, number),
            "python": site.engine.python,
            "model": site.model,
            "sglang": profile.sglang,
            "speculates": True,
        },
        "front": {"port": profile.ports.public},
        "expect": {
            "server_info": {
                "version": profile.sglang,
                "speculative_algorithm": profile.speculation.algorithm,
                "speculative_num_draft_tokens": verify_width(options.budget),
                **_expected(profile),
            },
            "graphs": options.graphs,
            "overlay_ranks": profile.overlay.ranks,
        },
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }
    return Rendered(number, files, json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n", fingerprint)


def spec(profile: Profile, site: Site, service: str) -> dict[str, Any]:
    """Returns the part of a manifest that does not depend on the release: gates and deadlines."""
    return {
        "format": 1,
        "service": service,
        "profile": profile.name,
        "gates": profile.gates.model_dump(),
        "deadlines": profile.deadlines.model_dump(),
        "engine": {"model": site.model},
    }


def supervisor_unit() -> str:
    """Returns the text of the supervisor's template unit."""
    return _template("supervisor.service.j2").render()


def command(profile: Profile, site: Site, service: str, options: Options, number: int) -> list[str]:
    """Returns the engine's arguments, the interpreter first."""
    arguments: dict[str, Any] = {
        "model-path": site.model,
        "served-model-name": service,
        "host": "127.0.0.1",
        "port": _port(profile, number),
        **profile.launch.arguments,
        "speculative-algorithm": profile.speculation.algorithm,
        "speculative-num-draft-tokens": verify_width(options.budget),
        **profile.speculation.arguments,
        # where the hardware has none there is nothing to switch off
        "disable-cuda-graph": not options.graphs and profile.graphs.refused_because is None,
    }
    words = [site.engine.python, "-m", "sglang.launch_server"]
    for name, value in arguments.items():
        if value is False:
            continue
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def _expected(profile: Profile) -> dict[str, Any]:
    read_back = ("device", "dtype", "attention-backend", "max-running-requests")
    arguments = profile.launch.arguments
    return {name.replace("-", "_"): arguments[name] for name in read_back if name in arguments}


def _port(profile: Profile, number: int) -> int:
    return profile.ports.engine_base + number % 1000


def _files(profile: Profile, site: Site, service: str, options: Options, number: int) -> dict[str, bytes]:
    name = f"{service}-{number:04d}"
    directory = f"{_ROOT}/{service}/releases/{number:04d}"
    settings = {"release": name, "platform": profile.overlay.platform, "drill": options.drill}
    environment = {
        **profile.launch.environment,
        **overlay.environment(settings, f"{directory}/overlay"),
        "HOME": f"/var/cache/{service}",
        "XDG_CACHE_HOME": f"/var/cache/{service}",
    }
    values = {
        "service": service,
        "number": number,
        "unit": f"{name}.service",
        "budget": options.budget,
        "graphs": options.graphs,
        "command": quoting.unit_command(command(profile, site, service, options, number)),
        "release_dir": directory,
        "user": profile.user,
        "hardening": profile.hardening,
        # the supervisor owns the stop; systemd's own limit is for the day when there is none
        "stop_timeout": int(profile.deadlines.stop * 2 + 30),
        "environment": [quoting.environment_line(n, v) for n, v in sorted(environment.items())],
        "public_address": f"0.0.0.0:{profile.ports.public}",
    }
    texts = {
        f"{name}.service": "engine.service.j2",
        "environment": "environment.j2",
        f"{service}-front.socket": "front.socket.j2",
        f"{service}-front.service": "front.service.j2",
    }
    rendered = {path: _template(template).render(values).encode() for path, template in texts.items()}
    return rendered | {f"overlay/{path}": data for path, data in overlay.files().items()}


def _fingerprint(files: dict[str, bytes], site: Site) -> str:
    digest = hashlib.sha256(f"{site.engine.python}\0{site.model}\0".encode())
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


@cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.folder("templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - units are no HTML; values go through quoting
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
