"""The manifest of a release: what its host must know of it, and finds again of every file."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from . import diffs, overlay, suites
from .agent import state
from .profile import Profile
from .site import Site

if TYPE_CHECKING:
    from .render import Options


def of(
    profile: Profile,
    site: Site,
    service: str,
    options: Options,
    number: int,
    files: dict[str, bytes],
    patches: diffs.Diffs | None,
) -> dict[str, Any]:
    """Returns the manifest of a release that is made of these files, but for who made it and when."""
    return {
        **spec(profile, site, service),
        "release": number,
        "unit": f"{service}-{number:04d}.service",
        "budget": options.budget,
        "graphs": options.graphs,
        "algorithm": options.drafting.algorithm,
        "topk": options.topk,
        "max_running": options.limits.max_running,
        "overlay": diffs.identity(site.overlay, patches),
        **({"tree": patches.tree()} if patches else {}),
        "drill": options.drill,
        "engine": {
            "host": "127.0.0.1",
            "port": profile.ports.of_release(number),
            "python": site.engine.python,
            "model": site.model,
            "drafter": site.drafter if options.drafting.drafter else None,
            "sglang": profile.sglang,
            "speculates": True,
        },
        "front": {"port": profile.ports.public},
        "hardware": profile.hardware.model_dump(),
        "expect": {
            "server_info": {
                "version": profile.sglang,
                "speculative_algorithm": options.drafting.algorithm,
                "speculative_num_draft_tokens": options.limits.width,
                "max_running_requests": options.limits.max_running,
                **_expected(profile),
            },
            "graphs": options.graphs,
            "ddtree": options.tree,
            "overlay": overlay.sha256() if site.overlay.plugin else None,
            "overlay_ranks": profile.overlay.ranks if site.overlay.plugin else 0,
        },
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }


def spec(profile: Profile, site: Site, service: str) -> dict[str, Any]:
    """Returns the part of a manifest that does not depend on the release: gates, suites and deadlines."""
    return {
        "format": state.FORMAT,
        "service": service,
        "profile": profile.name,
        "gates": _gates(profile),
        "suites": [[name, suites.settings_of(name, profile.suites)] for name in profile.gates.suites],
        "deadlines": profile.deadlines.model_dump(),
        "watch": profile.watch.model_dump(),
        "engine": {"model": site.model},
    }


def _gates(profile: Profile) -> dict[str, Any]:
    gates = profile.gates.model_dump(exclude={"suites"})
    added = gates["smoke"].pop("request")
    for question in gates["smoke"]["questions"]:
        question["request"] = added  # whoever asks has it at hand
    return gates


def _expected(profile: Profile) -> dict[str, Any]:
    read_back = ("device", "dtype", "attention-backend", "tp-size", "disable-custom-all-reduce")
    arguments = profile.launch.arguments
    return {name.replace("-", "_"): arguments[name] for name in read_back if name in arguments}
