"""``ddops study``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .options import JsonLinesOption


def command(
    study: Annotated[
        Path | None, typer.Argument(metavar="STUDY", help="A file that a sweep wrote; none: list those there are.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a row for each cell and concurrency.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: FILE.svg or FILE.png.")] = None,
    as_json: JsonLinesOption = False,
) -> int:
    """Show what a sweep has found: table, failures with their lines, ceilings, plots."""
    from ..errors import UsageError
    from ..sweep import picture, rows
    from ..sweep import study as studies
    from . import output, swept

    if plot:
        picture.check(plot)
    if study is None:
        if csv or plot:
            raise UsageError("which study?", "none is named", "ddops study lists them; ddops study FILE --csv FILE")
        found = studies.listed(studies.folder())
        for one in found if as_json else ():
            output.data(json.dumps(rows.result_json(one, 0) | {"began": one.head["time"]}))
        if as_json:
            return 0
        for one in found:
            output.data(swept.brief(one))
        if not found:
            output.say(f"no studies in {studies.folder()}\n\nhint: ddops sweep PROFILE --budgets 4,8,12 makes one")
        return 0
    wanted = studies.read(study)
    if as_json:
        for result in rows.by_line(wanted):
            output.data(json.dumps(rows.cell_json(wanted, result)))
        output.data(json.dumps(rows.result_json(wanted, 0)))
    else:
        swept.show(wanted)
    swept.keep(wanted, csv, plot)
    return 0
