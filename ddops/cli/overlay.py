"""``ddops overlay``: whether what changes SGLang fits a host, and what the site's diffs are pinned to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import HostOption, JsonOption, SiteOption

app = typer.Typer(help="What changes SGLang in a release: the plug-in, diffs of your own.", no_args_is_help=True)


@app.command("check")
def check(host: HostOption = None, site: SiteOption = None, as_json: JsonOption = False) -> int:
    """Ask each host, or one, whether plug-in and diffs fit its SGLang; exit 9 if not, 6 if one is not reached."""
    from .. import doctor
    from . import examined, output, passphrase

    found = doctor.fit(site, host, lambda name: output.say(f"asking {name}"), passphrase.ask)
    return examined.show(found, as_json=as_json)


@app.command("pin")
def pin(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the diffs.")],
    host: HostOption = None,
    site: SiteOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write DIR/pins.yaml: what a host's SGLang is before and after the diffs; change nothing there."""
    from .. import diffs
    from .. import site as sites
    from . import output, target

    known = sites.load(site)
    name, entry = sites.choose(known, host)
    output.asking(name)
    agent = target.connector(name, entry, "")()
    try:
        path, pins = diffs.pin(agent, known.at(entry).engine.python, folder)
    finally:
        agent.close()
    if as_json:
        output.document({"file": str(path), **pins.model_dump()})
        return 0
    output.say(f"{len(pins.files)} files of SGLang {pins.sglang} are pinned")
    output.data(str(path))
    return 0
