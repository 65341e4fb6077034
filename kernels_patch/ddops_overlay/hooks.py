"""The hooks of one process: registered with SGLang's HookRegistry, and checked after it applied them.

The registry logs and goes on when a target has moved, so each hook is looked for in the wrapper chain
that stands at its target.
"""

from __future__ import annotations

import hashlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Hook:
    """`kind` is SGLang's: before, after, around or replace."""

    target: str
    kind: str
    function: Callable[..., Any]


def register(hooks: list[Hook]) -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for hook in hooks:
        HookRegistry.register(hook.target, hook.function, HookType(hook.kind))


def source_sha256(target: str) -> str | None:
    """sha256 of the source text of what stands at the target, without wrappers; None if it is not there."""
    try:
        original = inspect.unwrap(_resolve(target))
        original = getattr(original, "fn", original)  # a Triton kernel is an object around its function
        return hashlib.sha256(inspect.getsource(original).encode()).hexdigest()
    except (AttributeError, ImportError, OSError, TypeError):
        return None


def is_wrapped(hook: Hook) -> bool:
    """Whether the hook's function is called by one of the wrappers at its target."""
    try:
        standing = _resolve(hook.target)
    except (AttributeError, ImportError):
        return False
    return any(hook.function in _closure(wrapper) for wrapper in _chain(standing))


def _resolve(target: str) -> Any:
    parent, name = target.rsplit(".", 1)
    return getattr(pkgutil.resolve_name(parent), name)


def _chain(function: Any) -> Iterator[Any]:
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def _closure(function: Any) -> list[Any]:
    cells = getattr(function, "__closure__", None) or ()
    return [cell.cell_contents for cell in cells if callable(cell.cell_contents)]
