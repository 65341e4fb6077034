"""Whether what a release changes in SGLang fits the host's: the plug-in's hooks, the site's diffs."""

from __future__ import annotations

from typing import Any

from . import patched_tree, stack
from .checks import Finding, absent, guarded, hooked, ok


def check(about: dict[str, Any]) -> list[Finding]:
    """Returns the findings; ``about`` holds python, pins (the plug-in's, or None) and tree (the diffs', or None).

    ``tree`` holds sglang and files as a manifest does, and texts: each diff's name and text.
    """
    python, pins, tree = about["python"], about["pins"], about["tree"]
    found = [absent("overlay fit", "the plug-in is switched off in the site file")]
    if pins is not None:
        found = guarded("overlay fit", lambda: hooked.check(python, pins))
    if tree is not None:
        found += guarded("diffs fit", lambda: _tree(python, tree))
    return found


def _tree(python: str, tree: dict[str, Any]) -> list[Finding]:
    done = patched_tree.check(python, tree, {name: text.encode() for name, text in tree["texts"].items()})
    said = f"{len(tree['texts'])} diffs change {len(done)} files as pinned, of SGLang {tree['sglang']}"
    return [ok("diffs fit", said)]


def pins(python: str, diffs: dict[str, str]) -> dict[str, Any]:
    """Returns what the diffs make of this host's SGLang: its version, and each file before and after."""
    found = patched_tree.outcome(python, {name: text.encode() for name, text in diffs.items()})
    return {"sglang": stack.version(python), "files": found}
