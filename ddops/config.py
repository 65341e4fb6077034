"""Reading the YAML files that users write; an error names the file, the key's path and the nearest known key.

Several files can hold parts of one whole: each is a layer, and the value of a key comes from the last layer that
has it. Mappings are merged, everything else is replaced.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from .errors import UsageError, did_you_mean

Model = TypeVar("Model", bound="Strict")


class Strict(BaseModel):
    """A part of a file: unknown keys are errors, values do not change."""

    # built when it is first read: a part of a whole is never read alone, and to build it twice takes time
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and not _takes_truth(cls.model_fields[str(info.field_name)].annotation):
            raise ValueError("true or false is not wanted here")
        return value


def _takes_truth(annotation: Any) -> bool:
    return annotation in (bool, Any) or any(_takes_truth(part) for part in get_args(annotation))


# by the beginning of the type of pydantic's error
_WANTED = {
    "int_": "a whole number",
    "float_": "a number",
    "bool_": "true or false",
    "string_type": "text",
    "list_": "a list",
    "tuple_": "a list",
    "dict_": "a mapping, key: value",
    "model_": "a mapping, key: value",
}


@dataclass(frozen=True)
class Layer:
    """A file, or the part of it below ``prefix``; ``name`` is how people are told of it."""

    name: str
    value: Any
    node: yaml.Node | None = None
    prefix: tuple[str, ...] = ()

    def below(self, *keys: str) -> Layer | None:
        """Returns the part of the file below these keys, None where it has none."""
        value, node = self.value, self.node
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                return None
            value = value[key]
            node = _child(node, key)
        return Layer(self.name, value, node, (*self.prefix, *keys))

    def without(self, key: str) -> Layer:
        """Returns the layer without a key at its top."""
        value = {k: v for k, v in self.value.items() if k != key} if isinstance(self.value, dict) else self.value
        return Layer(self.name, value, self.node, self.prefix)


@dataclass(frozen=True)
class Merged(Generic[Model]):
    """What the layers hold together, and for each key (its path with dots) the layer that it comes from."""

    value: Model
    origins: dict[str, str]


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


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    """Refuses what YAML 1.1 reads as another number than most people: 022 as 18, 1:30 as 90."""
    text = node.value.lstrip("+-")
    if ":" in text or (len(text) > 1 and text[0] == "0" and text[1].isdigit()):
        why = f"{node.value} would be read as {loader.construct_yaml_int(node)}: write it out, or in quotes for text"
        raise yaml.constructor.ConstructorError(None, None, why, node.start_mark)
    return int(loader.construct_yaml_int(node))


def _truth(loader: _Loader, node: yaml.ScalarNode) -> bool:
    """Refuses on, off, yes and no, which are as often meant as text."""
    if node.value.lower() not in ("true", "false"):
        why = f"'{node.value}' is true or false to YAML: write that, or in quotes for text"
        raise yaml.constructor.ConstructorError(None, None, why, node.start_mark)
    return bool(loader.construct_yaml_bool(node))


_Loader.yaml_implicit_resolvers = {  # a date is text: nothing here takes one
    first: [(tag, shape) for tag, shape in shapes if tag != "tag:yaml.org,2002:timestamp"]
    for first, shapes in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:bool", _truth)
_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def layer(path: Path) -> Layer:
    """Returns a file as a layer; raises UsageError where it cannot be read or is no YAML."""
    try:
        loader = _Loader(path.read_text())
        node = loader.get_single_node()
        value = None if node is None else loader.construct_document(node)
    except OSError as error:
        raise UsageError(f"cannot read {path}", error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text", f"it is not UTF-8 from byte {error.start} on") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not valid YAML", *_what_yaml_says(error)) from None
    except (ValueError, RecursionError) as error:  # !!int of a word, a number of 5000 digits, 3000 brackets
        raise UsageError(f"{path} is not valid YAML", str(error)) from None
    return Layer(str(path), value if value is not None else {}, node)


def _what_yaml_says(error: yaml.YAMLError) -> tuple[str, str]:
    """Returns where and why it is none, and what to do about it where that is known."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split()), ""
    context = getattr(error, "context", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: {problem}" + (f" {context}" if context else "")
    return where, "YAML takes spaces alone: no tabs at the beginning of a line" if "'\\t'" in problem else ""


def read(path: Path, model: type[Model]) -> Model:
    """Returns one file as a model; raises UsageError saying what is wrong, where, and what was expected."""
    return merge(model, [layer(path)]).value


def merge(model: type[Model], layers: Sequence[Layer]) -> Merged[Model]:
    """Returns what the layers hold together, the later ones first; raises UsageError as ``read``."""
    owners: dict[tuple[str, ...], Layer] = {}
    whole: Any = {}
    for each in layers:
        whole = _merged(whole, each.value, each, (), owners)
    try:
        value = model.model_validate(whole)
    except ValidationError as error:
        raise UsageError(*_explain(layers, owners, model, error)) from None
    return Merged(value, {".".join(path): owner.name for path, owner in owners.items()})


def _merged(below: Any, above: Any, owner: Layer, path: tuple[str, ...], owners: dict[tuple[str, ...], Layer]) -> Any:
    if not isinstance(above, dict):
        for known in [p for p in owners if p[: len(path)] == path]:
            del owners[known]
        owners[path] = owner
        return above
    result = dict(below) if isinstance(below, dict) else {}
    for key, value in above.items():
        result[key] = _merged(result.get(key), value, owner, (*path, str(key)), owners)
    if not above:
        owners.setdefault(path, owner)
    return result


def _explain(
    layers: Sequence[Layer], owners: dict[tuple[str, ...], Layer], model: type[Model], error: ValidationError
) -> tuple[str, str, str]:
    # a misspelt key is the cause of the right one's absence
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    where = [str(part) for part in first["loc"]]
    owner = _owner(owners, where) or layers[0]
    at = f"{owner.name}:{_line(owner.node, where)}"
    path = ".".join([*owner.prefix, *where])
    if first["type"] == "missing":
        return f"{at}: '{path}' is missing", "it has no default", ""
    if first["type"] != "extra_forbidden":
        return f"{at}: {path or 'the file'}: {_wanted(first)}", f"found {first.get('input')!r}", ""
    known = _keys(model, where[:-1])
    return (
        f"{at}: unknown key '{path}'",
        f"known here: {', '.join(sorted(known))}",
        did_you_mean(where[-1], known),
    )


def _wanted(error: Any) -> str:
    """Returns what is wrong with a value, in words of people who write YAML and know no types of Python's."""
    kind, said = str(error["type"]), str(error["msg"])
    if kind == "value_error":  # our own words
        return str(error["ctx"]["error"])
    known = next((words for begin, words in _WANTED.items() if kind.startswith(begin)), None)
    return f"{known} is wanted" if known else f"{said[0].lower()}{said[1:]}"


def _owner(owners: dict[tuple[str, ...], Layer], where: list[str]) -> Layer | None:
    """Returns the layer of a key, or of one below it; for a list's entry, the layer of the list."""
    path = tuple(where)
    while path:
        found = [owner for key, owner in owners.items() if key[: len(path)] == path]
        if found:
            return found[-1]
        path = path[:-1]
    return None


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _line(node: yaml.Node | None, where: list[str]) -> int:
    line = node.start_mark.line + 1 if node is not None else 1
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
