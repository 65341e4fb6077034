"""Makes docs/profiles.md and docs/site.md from the commented files and the models.

    python docs/reference.py

The comment above a key is its documentation; a test holds the pages to it.
"""

import types
import typing
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from ddops import deploy, exit_codes, manual, profile, resources, settings, site
from ddops.cli.app import command
from ddops.errors import DdopsError
from ddops.site import Site

DOCS = Path(__file__).parent
BUDGETS = (7, 8, 12, 16, 32)


class Key(NamedTuple):
    """A key of a file: its path ([] for a list's entries), what is said above it, and behind it."""

    path: tuple[str, ...]
    above: str
    behind: str


def keys(text: str) -> list[Key]:
    """Returns the keys of a commented YAML file in block style, in its order."""
    found: list[Key] = []
    parents: list[tuple[int, tuple[str, ...]]] = []
    above: list[str] = []
    starts = {token.start_mark.line for token in yaml.scan(text) if isinstance(token, yaml.KeyToken)}
    for number, line in enumerate(text.splitlines()):
        body = line.strip()
        if body.startswith("#"):
            above.append(body.lstrip("# "))
            continue
        if number in starts:
            indent, entry = len(line) - len(line.lstrip()), body.startswith("- ")
            while parents and parents[-1][0] >= indent:
                parents.pop()
            parent = parents[-1][1] if parents else ()
            if entry:
                parent = (*parent, "[]")
                parents.append((indent, parent))
                indent, body = indent + 2, body[2:]
            name, _, rest = body.partition(":")
            path = (*parent, name.strip())
            parents.append((indent, path))
            found.append(Key(path, " ".join(above), _behind(rest)))
        above = []
    return found


def _behind(text: str) -> str:
    _, mark, comment = text.partition("  # ")
    return comment if mark else ""


def model_keys(model: type[BaseModel], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    """Returns the keys that a model has, with their types in words; names of a mapping's entries are NAME."""
    found: dict[tuple[str, ...], str] = {}
    for name, field in model.model_fields.items():
        here = (*path, name)
        found[here] = words(field.annotation)
        for inner, suffix in _models(field.annotation):
            found |= model_keys(inner, here + suffix)
    return found


def _models(annotation: Any) -> list[tuple[type[BaseModel], tuple[str, ...]]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(annotation, ())]
    suffix = {list: ("[]",), dict: ("NAME",)}.get(typing.get_origin(annotation) or type, ())
    parts = typing.get_args(annotation)
    return [(m, suffix + s) for part in (parts[1:] if suffix == ("NAME",) else parts) for m, s in _models(part)]


def words(annotation: Any) -> str:
    """Returns a type in words."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return words(parts[0])
    if origin is typing.Literal:
        return ", ".join(str(part) for part in parts)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(words(part) for part in parts))
    if origin is list:
        return f"list of {words(parts[0])}"
    if origin is tuple:
        return f"{len(parts)} of {words(parts[0])}"
    if origin is dict:
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    names = {int: "whole number", float: "number", bool: "true or false", str: "text", type(None): "null", Path: "path"}
    return names.get(annotation, "" if annotation is not Any else "anything")


def table(model: type[BaseModel], text: str, entry: str = "") -> str:
    """Returns every key of a model with what the file says above it; ``entry`` is the file's name for NAME."""
    said: dict[tuple[str, ...], str] = {}
    for key in keys(text):
        path = tuple("NAME" if part == entry else part for part in key.path)
        said[path] = said.get(path) or key.above
    rows = ["| key | is | says |", "| --- | --- | --- |"]
    for path, kind in model_keys(model).items():
        name = ".".join(path).replace(".[]", "[]")
        says = said.get(path) or said.get(path[2:], "")  # of a host: as the site itself has it
        rows.append(f"| `{name}` | {kind} | {says.replace('|', '/')} |")
    return "\n".join(rows)


def budgets() -> str:
    """Returns what each budget gives today on each profile, by the same code that renders it."""
    at_home = Site.model_validate(
        {"hosts": {"h": {"address": "h"}}, "engine": {"python": "/p"}, "model": "/m", "drafter": "/d"}
    )
    rows = [
        "| profile | budget | drafts the tree | N | max running | masks, MiB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in profile.names():
        for budget in BUDGETS:
            asked = deploy.Request(asked=settings.Asked(budget=budget))
            try:
                options, _ = deploy.options_of(profile.load(name), at_home, asked)
            except DdopsError as error:
                rows.append(f"| {name} | {budget} | refused: {error} | | | |")
                continue
            limits = options.limits
            figures = f"{limits.width} | {limits.max_running} | {limits.mask_bytes / 2**20:.1f}"
            rows.append(f"| {name} | {budget} | {options.drafting.algorithm} | {figures} |")
    return "\n".join(rows)


def evidence() -> str:
    """Returns what the profiles know of combinations."""
    rows = [
        "| profile | budget | graphs | | what | accept length | tok/s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in profile.names():
        for e in profile.load(name).evidence:
            graphs = {True: "on", False: "off", None: "not recorded"}[e.graphs]
            figures = f"{e.accept_length or ''} | {e.tokens_per_second or ''}"
            rows.append(f"| {name} | {e.budget} | {graphs} | {e.outcome} | {e.algorithm}, {e.what} | {figures} |")
    return "\n".join(rows)


def codes() -> str:
    """Returns every exit code with what it says after each kind of command."""
    rows = ["| code | meaning | after `deploy`, `adopt` | after `rollback` |", "| --- | --- | --- | --- |"]
    for each in exit_codes.MEANINGS:
        rows.append(f"| {int(each.code)} | {each.meaning} | {each.deploy or '-'} | {each.rollback or '-'} |")
    return "\n".join(rows)


def pages() -> dict[str, str]:
    """Returns the pages by their names."""
    text = (resources.folder("profiles") / "b300.yaml").read_text()
    profiles = (DOCS / "profiles.in.md").read_text()
    profiles = profiles.replace("{{ keys }}", table(profile.Profile, text))
    profiles = profiles.replace("{{ budgets }}", budgets()).replace("{{ evidence }}", evidence())
    commented = (resources.folder("templates") / "site.yaml").read_text()
    sites = (DOCS / "site.in.md").read_text().replace("{{ keys }}", table(site.Site, commented, "gpu-1"))
    exits = (DOCS / "exit-codes.in.md").read_text().replace("{{ codes }}", codes())
    return {"profiles.md": profiles, "site.md": sites, "exit-codes.md": exits, "ddops.1": manual.page(command())}


if __name__ == "__main__":
    for name, page in pages().items():
        (DOCS / name).write_text(page)
