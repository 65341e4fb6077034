"""SGLang, the model and the drafter, as the site file names them."""

from __future__ import annotations

from typing import Any

from .. import durable, site, stack
from ..layout import layout_of, services
from . import Finding, absent, bad, ok

# of each finding of ``ddops site check``: why it matters, and the next command
_WHY = {
    "engine.python": ("there is nothing to start", "correct engine.python in the site file; ddops site check"),
    "model": ("the engine would have nothing to load", "correct 'model' in the site file; ddops site check"),
    "drafter": ("nothing would draft", "correct 'drafter' in the site file; ddops site check"),
    "permissions": ("the engine does not run as root", "chmod a+rX that path"),
    "secrets": ("systemd hands it to the engine", "on the host: chown root, chmod 600"),
    "ss": ("without it the front cannot be closed", "apt-get install iproute2"),
}


def placed(about: dict[str, Any]) -> list[Finding]:
    """Looks whether all that the site file names is there and can be read."""
    found = []
    for entry in site.check(about):
        why, following = _WHY[entry["name"]]
        name, text = entry["name"], entry["text"]
        found.append(ok(name, text) if entry["good"] else bad(name, text, why, following))
    return found


def version(about: dict[str, Any]) -> list[Finding]:
    """Compares SGLang's version with the profile's, where there is one."""
    if not about["sglang"]:
        return [absent("sglang", "no profile to compare its version with")]
    here = stack.version(about["python"])
    if here != about["sglang"]:
        why = f"the profile is for {about['sglang']}, and the overlay is pinned to it"
        return [bad("sglang", here, why, f"install sglang=={about['sglang']}, or use a profile for {here}")]
    return [ok("sglang", here)]


def record(about: dict[str, Any]) -> list[Finding]:
    """Compares SGLang's files with its RECORD; what the services remember as right is not read again."""
    remembered: dict[str, list[int]] = {}
    for name in services():
        remembered.update(durable.read_json(layout_of(name).root / "verified.json") or {})
    packages = stack.site_packages(about["python"])
    if packages is None or not any(packages.glob("sglang-*.dist-info/RECORD")):
        return [absent("record", "there is no RECORD of SGLang")]
    wrong, right = stack.against_record(about["python"], remembered)
    if wrong:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        why = "SGLang is not what was installed: nothing that was proven on it holds"
        return [bad("record", "; ".join(wrong[:3]) + more, why, "reinstall SGLang at the same version")]
    return [ok("record", f"{len(right)} files are as SGLang's RECORD says")]
