"""Rendering a release: everything a host gets, as bytes, from a profile, a site and the options of a deploy."""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from . import __version__, diffs, manifests, overlay, packing, quoting, resources
from .agent import carried
from .errors import UsageError
from .limits import Limits
from .profile import Drafting, Profile
from .site import Site

if TYPE_CHECKING:
    import jinja2

_ROOT = "/var/lib/ddops"
_SECRETS = ("api-key", "admin-api-key", "ssl-keyfile-password")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Options:
    """What a deploy asks for beyond the profile's defaults."""

    limits: Limits
    graphs: bool
    drafting: Drafting
    topk: int | None = None
    drill: dict[str, Any] | None = None

    @property
    def budget(self) -> int:
        return self.limits.budget

    @property
    def tree(self) -> dict[str, Any] | None:
        """Returns the overlay's settings of DDTREE, None for another algorithm."""
        return {"budget": self.budget, "topk": self.topk} if self.drafting.algorithm == "DDTREE" else None

    def words(self) -> str:
        """Returns the settings as a plan begins."""
        graphs, topk = "on" if self.graphs else "off", f", topk {self.topk}" if self.topk else ""
        width = self.limits.width
        return f"budget {self.budget}, verify width {width}, graphs {graphs}, {self.drafting.algorithm}{topk}"


@dataclass(frozen=True)
class Rendered:
    """A release as it travels: its files, its manifest, and what tells it from another."""

    number: int
    unit: str
    files: dict[str, bytes]
    manifest: bytes
    fingerprint: str

    def as_manifest(self) -> dict[str, Any]:
        """Returns the manifest as data."""
        found: dict[str, Any] = json.loads(self.manifest)
        return found

    def overlay_digest(self) -> str:
        """Returns what the overlay's files are told by, '' where there are none."""
        return carried.digest(self.as_manifest()["files"])

    def archive(self, *, overlay: bool = True) -> bytes:
        """Returns the files as one reproducible tar.gz, with the overlay's or without."""
        return packing.archive(
            {n: data for n, data in self.files.items() if overlay or not n.startswith(carried.FOLDER)}
        )


def requester() -> str:
    """Returns who asks, for locks and ledgers: user@machine."""
    return f"{getpass.getuser()}@{platform.node()}"


def release(profile: Profile, site: Site, service: str, options: Options, number: int) -> Rendered:
    """Renders one release. The fingerprint leaves out what differs between two releases of the same settings.

    Raises UsageError for a value of the profile or the site that no unit and no environment can hold.
    """
    patches = diffs.of(site)
    _possible(profile, site, options, patches)
    try:
        fingerprint = _fingerprint(_files(profile, site, service, options, 0), site)
        files = _files(profile, site, service, options, number)
    except ValueError as error:
        raise UsageError("a value of the profile or the site file cannot be rendered", str(error)) from None
    manifest = {
        **manifests.of(profile, site, service, options, number, files, patches),
        "fingerprint": fingerprint,
        "created": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "by": requester(),
        "ddops": __version__,
    }
    text = json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n"
    return Rendered(number, str(manifest["unit"]), files, text, fingerprint)


def _possible(profile: Profile, site: Site, options: Options, patches: diffs.Diffs | None) -> None:
    """Raises UsageError where overlay and profile do not go together, or an argument would give a secret away."""
    if secret := next((name for name in _SECRETS if name in profile.launch.arguments), None):
        raise UsageError(
            f"profile {profile.name} has {secret} among SGLang's arguments",
            "it would be in the process list, and SGLang writes all its arguments into the journal",
            "have the proxy in front ask for a key, the engine listens on loopback; docs/security.md",
        )
    if patches and patches.pins.sglang != profile.sglang:
        raise UsageError(
            f"the diffs are for SGLang {patches.pins.sglang}, profile {profile.name} for {profile.sglang}",
            "a release runs one version",
            "a profile of your own for that version, or other diffs",
        )
    needs = [
        *(["its platform is the plug-in's"] if profile.overlay.platform else []),
        *(["a drill is the plug-in's"] if options.drill else []),
    ]
    if needs and not site.overlay.plugin:
        raise UsageError(f"profile {profile.name} needs the plug-in", "; ".join(needs), "overlay: {plugin: true}")


def supervisor_unit() -> str:
    """Returns the text of the supervisor's template unit."""
    return _template("supervisor.service.j2").render()


def command(profile: Profile, site: Site, service: str, options: Options, number: int) -> list[str]:
    """Returns the engine's arguments, the interpreter first."""
    drafting = options.drafting
    # where the hardware has none there is nothing to switch off or to size
    has_graphs = profile.graphs.refused_because is None
    arguments: dict[str, Any] = {
        "model-path": site.model,
        "served-model-name": service,
        "host": "127.0.0.1",
        "port": profile.ports.of_release(number),
        "context-length": profile.model.context,
        "max-running-requests": options.limits.max_running,
        **profile.launch.arguments,
        "speculative-algorithm": drafting.algorithm,
        "speculative-num-draft-tokens": options.limits.width,
        **({"speculative-draft-model-path": site.drafter} if drafting.drafter else {}),
        **drafting.arguments,
        **({"cuda-graph-max-bs-decode": options.limits.max_running} if has_graphs and options.graphs else {}),
        "disable-cuda-graph": not options.graphs and has_graphs,
    }
    words = [site.engine.python, "-m", "sglang.launch_server"]
    for name, value in arguments.items():
        if value is False:
            continue
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def environment(profile: Profile, site: Site, service: str, options: Options, name: str) -> dict[str, str]:
    """Returns the variables of the engine of the release ``name``; the site's secrets are not among them."""
    own = profile.launch.environment
    tile = profile.overlay.verify_tile
    settings: dict[str, Any] = {"release": name, "platform": profile.overlay.platform, "drill": options.drill}
    if tree := options.tree:
        settings["ddtree"] = tree
    if profile.hardware.arch != "cpu":
        settings["arch"] = profile.hardware.arch
        settings["verify_tile"] = [tile.queries, tile.keys, tile.warps] if tile else None
    folder = f"{_ROOT}/{service}/releases/{name.rpartition('-')[2]}"
    return {
        **own,
        **(overlay.environment(settings) if site.overlay.plugin else {}),
        # before site-packages: the copy is the sglang that the engine imports
        **_python_path(folder, plugin=site.overlay.plugin, tree=bool(site.overlay.diffs)),
        "HOME": f"/var/cache/{service}",
        "XDG_CACHE_HOME": f"/var/cache/{service}",
        # what kernels are compiled with at their first use, such as ninja, lies beside the engine's python
        "PATH": f"{PurePosixPath(site.engine.python).parent}:{own.get('PATH', _PATH)}",
    }


def _python_path(folder: str, *, plugin: bool, tree: bool) -> dict[str, str]:
    paths = [f"{folder}/overlay"] * plugin + [f"{folder}/tree"] * tree
    return {"PYTHONPATH": ":".join(paths)} if paths else {}


def _files(profile: Profile, site: Site, service: str, options: Options, number: int) -> dict[str, bytes]:
    name = f"{service}-{number:04d}"
    directory = f"{_ROOT}/{service}/releases/{number:04d}"
    words = command(profile, site, service, options, number)
    values = {
        "service": service,
        "number": number,
        "unit": f"{name}.service",
        "budget": options.budget,
        "graphs": options.graphs,
        "algorithm": options.drafting.algorithm,
        "command": quoting.unit_command(words),
        "by_hand": quoting.transient(words),
        "environment_file": quoting.unit_path(f"{directory}/environment"),
        "secrets": [quoting.unit_path(path) for path in site.secrets],
        "credentials": [(name, quoting.unit_path(path)) for name, path in sorted(site.credentials.items())],
        "plain_credentials": sorted(site.credentials.items()),
        "plain_paths": [f"{directory}/environment", *site.secrets],
        "user": profile.user,
        "hardening": [entry.option for entry in profile.hardening],
        # the supervisor owns the stop; systemd's own limit is for the day when there is none
        "stop_timeout": int(profile.deadlines.stop * 2 + 30),
        "environment": [
            quoting.environment_line(n, v)
            for n, v in sorted(environment(profile, site, service, options, name).items())
        ],
        "public_address": f"0.0.0.0:{profile.ports.public}",
    }
    texts = {
        f"{name}.service": "engine.service.j2",
        "environment": "environment.j2",
        "launch": "launch.j2",
        f"{service}-front.socket": "front.socket.j2",
        f"{service}-front.service": "front.service.j2",
    }
    rendered = {path: _template(template).render(values).encode() for path, template in texts.items()}
    if patches := diffs.of(site):
        rendered |= patches.texts
    if site.overlay.plugin:
        rendered |= {f"overlay/{path}": data for path, data in overlay.files().items()}
    return rendered


def _fingerprint(files: dict[str, bytes], site: Site) -> str:
    digest = hashlib.sha256(f"{site.engine.python}\0{site.model}\0".encode())  # the drafter is in the command
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


@cache
def _template(name: str) -> jinja2.Template:
    import jinja2  # while the host is being connected to; what renders nothing does without it

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.folder("templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - units are no HTML; values go through quoting
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shell"] = lambda word: quoting.shell([word])
    return environment.get_template(name)
