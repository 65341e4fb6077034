"""The values that are in effect, and where each comes from: flag, DDOPS_*, project file, user file, default."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from . import config, durations
from . import profile as profiles
from . import site as sites
from .agent.layout import SERVICE_NAME, SERVICE_NAME_IN_WORDS
from .errors import UsageError, did_you_mean
from .profile import Profile
from .site import HostEntry, OverlayEntry, Site


def _switch(text: str) -> bool:
    known = {"1": True, "on": True, "true": True, "yes": True, "0": False, "off": False, "false": False, "no": False}
    if text.lower() not in known:
        raise ValueError(f"'{text}' is neither on nor off")
    return known[text.lower()]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is no whole number") from None


# what a flag and a variable can say of a release: the profile's key, and how the variable is read
_ASKED: dict[str, tuple[str, Callable[[str], Any]]] = {
    "budget": ("budget.default", _number),
    "graphs": ("graphs.default", _switch),
    "max_running": ("limits.max_running", _number),
    "algorithm": ("algorithm", str),
    "soak": ("soak", durations.seconds),
    "topk": ("topk", _number),
}
_OTHERS = {
    "DDOPS_SITE": "the site file, instead of those that are found",
    "DDOPS_HOST": "the host, where --host is not given",
    "DDOPS_SERVICE": "the service, where --service is not given",
}
_OF_LAB = {
    "DDOPS_LAB_DIR": "where a lab keeps its hosts; each lab has its own",
    "DDOPS_LAB_NET": "first three octets of a lab's network; each has its own",
    "DDOPS_LAB_NETNS": "the network namespace that holds a lab's bridge",
    "DDOPS_LAB_DISTRIBUTION": "what new lab hosts run, such as trixie or noble",
    "DDOPS_LAB_CACHE": "what labs share: root file system, CPU engine, model",
}
VARIABLES = {
    **{f"DDOPS_{name.upper()}": f"as --{name.replace('_', '-')} of a deploy, which wins" for name in _ASKED},
    **_OTHERS,
    **_OF_LAB,
}
_NOT_OURS = ("DDOPS_LAB_", "DDOPS_TEST_", "DDOPS_OVERLAY")


@dataclass(frozen=True)
class Asked:
    """What flags and variables ask for; None: what the profile says."""

    budget: int | None = None
    graphs: bool | None = None
    max_running: int | None = None
    algorithm: str | None = None
    soak: float | None = None
    topk: int | None = None


@dataclass(frozen=True)
class Effective:
    """A profile and a site as they are for one host, and what was asked for beyond them."""

    profile: Profile
    site: Site | None
    host: str | None
    entry: HostEntry | None
    asked: Asked
    origins: dict[str, str]

    def place(self) -> tuple[str, HostEntry, Site]:
        """Returns the host, its entry and the site; raises UsageError where there is no site."""
        if self.host is None or self.entry is None or self.site is None:
            raise UsageError("no site file", "", "ddops site init writes one")
        return self.host, self.entry, self.site

    def service(self, flag: str | None) -> str:
        """Returns the service's name: the flag's, DDOPS_SERVICE's, or the profile's; raises UsageError for no name."""
        name = flag if flag is not None else os.environ.get("DDOPS_SERVICE") or self.profile.service
        if not re.fullmatch(SERVICE_NAME, name):
            raise UsageError(f"'{name}' cannot be a service name", SERVICE_NAME_IN_WORDS, "--service NAME")
        return name

    def rows(self) -> list[tuple[str, Any, str]]:
        """Returns every value with its key and its origin, in the order of the file."""
        found = dict(_leaves(self.profile.model_dump(), ()))
        for name, (key, _) in _ASKED.items():
            if (value := getattr(self.asked, name)) is not None:
                found[key] = value
        if self.site and self.host:
            parts = self.site.model_dump(include={"engine", "model", "drafter", "overlay", "secrets", "credentials"})
            found |= {f"site.{key}": value for key, value in _leaves(parts, ())}
        return [(key, value, self._origin(key)) for key, value in found.items()]

    def _origin(self, key: str) -> str:
        while key not in self.origins and "." in key:
            key = key.rpartition(".")[0]
        return self.origins.get(key, "default")


def resolve(
    name: str,
    site_flag: Path | None,
    host: str | None,
    flags: Asked,
    *,
    need_site: bool = True,
    elsewhere: bool = False,
) -> Effective:
    """Returns what is in effect for a profile on a host, ``elsewhere``: on one that is none of the site's.

    Raises UsageError for whatever is wrong in a flag, a variable or a file; without ``need_site`` a site that
    is not there is no error.
    """
    path = profiles.path_of(name)
    asked, origins = _variables(flags, os.environ)
    default = config.layer(path)
    try:
        files = sites.layers(site_flag)
    except sites.NoSite:
        if need_site or host:
            raise
        files = []
    at_home = config.merge(Site, files) if files else None
    own = str(default.value.get("name", "")) if isinstance(default.value, dict) else ""
    overrides = [part for file in files if (part := file.below("profiles", own))]
    if at_home is None or elsewhere:
        merged = config.merge(Profile, [default, *overrides])
        return Effective(merged.value, None, None, None, asked, _named(merged.origins, path) | origins)
    chosen, entry = sites.choose(at_home.value, host)
    _known_profiles(at_home.value, own)
    overrides += [part for file in files if (part := file.below("hosts", chosen, "overrides"))]
    merged = config.merge(Profile, [default, *overrides])
    where = {f"site.{k}": f"{v}" for k, v in at_home.origins.items()}
    for key, target in (("python", "engine.python"), ("model", "model"), ("drafter", "drafter")):
        if getattr(entry, key):
            where[f"site.{target}"] = at_home.origins[f"hosts.{chosen}.{key}"]
    for key in OverlayEntry.model_fields if entry.overlay else ():
        where[f"site.overlay.{key}"] = at_home.origins.get(f"hosts.{chosen}.overlay.{key}", "default")
    return Effective(
        merged.value, at_home.value.at(entry), chosen, entry, asked, where | _named(merged.origins, path) | origins
    )


def _named(origins: Mapping[str, str], default: Path) -> dict[str, str]:
    return {key: "default" if origin == str(default) else origin for key, origin in origins.items()}


def _variables(flags: Asked, environ: Mapping[str, str]) -> tuple[Asked, dict[str, str]]:
    """Completes the flags from DDOPS_* variables; a misspelt one is an error, as it would do nothing."""
    names = {f"DDOPS_{name.upper()}": name for name in _ASKED}
    for variable in environ:
        if variable.startswith("DDOPS_") and not variable.startswith(_NOT_OURS):
            near = difflib.get_close_matches(variable, [*names, *_OTHERS], n=1, cutoff=0.8)
            if near and near[0] != variable:
                raise UsageError(
                    f"unknown variable {variable}",
                    f"known are: {', '.join([*names, *_OTHERS])}",
                    f"did you mean {near[0]}?",
                )
    asked, origins = flags, {}
    for field in fields(Asked):
        key, read = _ASKED[field.name]
        variable = f"DDOPS_{field.name.upper()}"
        if getattr(flags, field.name) is not None:
            origins[key] = "--" + field.name.replace("_", "-")
            if field.name == "graphs" and not flags.graphs:
                origins[key] = "--no-graphs"
        elif text := environ.get(variable):
            try:
                asked = replace(asked, **{field.name: read(text)})
            except ValueError as error:
                raise UsageError(f"{variable} is wrong", str(error)) from None
            origins[key] = variable
    return asked, origins


def _known_profiles(site: Site, own: str) -> None:
    known = [*profiles.names(), own]
    for name in site.profiles:
        if name not in known:
            raise UsageError(
                f"the site file sets values of an unknown profile '{name}'",
                f"known are: {', '.join(sorted(set(known)))}",
                did_you_mean(name, known),
            )


def _leaves(value: Any, path: tuple[str, ...]) -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [leaf for key, part in value.items() for leaf in _leaves(part, (*path, str(key)))]
    return [(".".join(path), value)]
