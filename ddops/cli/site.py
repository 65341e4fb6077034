"""``ddops site``: write a site file, and test it against its hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import HostOption, JsonOption, SiteOption

app = typer.Typer(help="The site file: hosts, ways in, paths.", no_args_is_help=True)


@app.command("init")
def init(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where; ~/.config/ddops/site.yaml unless said.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Write a site file with a comment on every key; one that is there is left alone."""
    from .. import quoting, site_file
    from . import output

    path = site_file.write(file)
    then = ["ddops", "site", "check", *(["--site", str(path)] if file else [])]
    output.say(f"{path} is written: fill it in, then {quoting.shell(then)}")
    output.document({"file": str(path)}) if as_json else output.data(str(path))
    return 0


@app.command("check")
def check(host: HostOption = None, site: SiteOption = None, as_json: JsonOption = False) -> int:
    """Ask each host, or one, whether the site file is true; exit 5 if not, 6 if one is not reached."""
    from .. import site_file
    from ..exit_codes import ExitCode
    from . import output, passphrase

    output.asking(host or "each host of the site")
    found = site_file.check(site, host, passphrase.ask)
    if as_json:
        output.document({"hosts": [each.as_json() for each in found]})
    else:
        for each in found:
            output.data(f"{each.host}: {output.paint('as it says', 'green') if each.good else each.word}")
            for finding in each.findings:
                output.data(f"  {'ok   ' if finding.good else 'WRONG'} {finding.name}: {finding.text}")
    if all(each.good for each in found):
        return int(ExitCode.OK)
    if not as_json:
        output.say("\nhint: correct the site file, or the host; ddops doctor says why each matters")
    return int(ExitCode.UNREACHABLE if any(each.unreachable for each in found) else ExitCode.REFUSED)
