"""Reading the YAML files that users write; an error names the file, the key's path and the nearest known key."""

from __future__ import annotations

import difflib
from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import UsageError

Model = TypeVar("Model", bound="Strict")


class Strict(BaseModel):
    """A part of a file: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice; YAML's last one would win silently."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(None, None, "a key cannot be a list", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' is there twice", key_node.start_mark)
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read(path: Path, model: type[Model]) -> Model:
    """Returns the file as a model; raises UsageError saying what is wrong, where, and what was expected."""
    try:
        text = path.read_text()
        node = yaml.compose(text, Loader=_Loader)
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - _Loader is a SafeLoader
    except OSError as error:
        raise UsageError(f"cannot read {path}", error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text", str(error)) from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not valid YAML", " ".join(str(error).split())) from None
    try:
        return model.model_validate(value if value is not None else {})
    except ValidationError as error:
        raise UsageError(*_explain(path, node, model, error)) from None


def _explain(path: Path, node: yaml.Node | None, model: type[Model], error: ValidationError) -> tuple[str, str, str]:
    # a misspelt key is the cause of the right one's absence
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    where = [str(part) for part in first["loc"]]
    line = _line(node, where)
    what = f"{path}:{line}: {'.'.join(where) or 'the file'}: {first['msg'][0].lower()}{first['msg'][1:]}"
    if first["type"] != "extra_forbidden":
        return what, f"found {first.get('input')!r}", ""
    known = _keys(model, where[:-1])
    near = difflib.get_close_matches(where[-1], known, n=1)
    return (
        f"{path}:{line}: unknown key '{'.'.join(where)}'",
        f"known here: {', '.join(sorted(known))}",
        f"did you mean '{near[0]}'?" if near else "",
    )


def _line(node: yaml.Node | None, where: list[str]) -> int:
    line = 1
    for part in where:
        if isinstance(node, yaml.MappingNode):
            pair = next((p for p in node.value if p[0].value == part), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
            line = node.start_mark.line + 1
    return line


def _keys(model: type[BaseModel], where: list[str]) -> list[str]:
    current: Any = model
    for part in where:
        fields = getattr(current, "model_fields", {})
        if part not in fields:
            continue  # the name of an entry in a mapping
        annotation = fields[part].annotation
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        current = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), current)
    return list(getattr(current, "model_fields", {}))
