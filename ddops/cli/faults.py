"""``ddops faults``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from . import completing
from .options import JsonOption

app = typer.Typer(help="Classify journals, and explain the rules.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def classify(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A journal; - is stdin.")] = "-",
    plain: Annotated[bool, typer.Option("--plain", help="Lines of a log, not journalctl's JSON.")] = False,
    phase: Annotated[str, typer.Option(metavar="PHASE", help="trial, promoted, starting or stopping.")] = "trial",
    unit: Annotated[list[str] | None, typer.Option("--unit", metavar="U", help="The service's unit.")] = None,
    invocation: Annotated[str, typer.Option(metavar="ID", help="Only this invocation.")] = "",
    as_json: JsonOption = False,
) -> int:
    """Tell the incidents of a journal (`journalctl -o json --all`), an object a line with --json."""
    from .. import faults
    from . import output, reading

    reading.phase(phase)
    with reading.lines(file) as lines:
        found, read = faults.incidents(lines, phase=phase, units=unit or [], plain=plain, invocation=invocation)
    for incident in found:
        record = incident.record()
        if as_json:
            output.data(json.dumps(record))
        else:
            output.data(f"{record['action']}  {record['class']}  ({record['rule']}, {record['count']} lines)")
            output.data(f"  {record['why']}")
            output.data(
                f"  {record['first']['line'].strip().splitlines()[-1] if record['first']['line'].strip() else ''}"
            )
    if not found:
        output.say(f"no fault in {read} line{'' if read == 1 else 's'}")
    return 0


@app.command("list")
def listing(as_json: JsonOption = False) -> int:
    """List the rules."""
    from .. import faults
    from . import output

    rules = faults.listed()
    if as_json:
        output.document(rules)
        return 0
    output.data(f"{'rule':28} {'class':30} {'trial':9} {'promoted':9}")
    for rule in rules:
        output.data(f"{rule['rule']:28} {rule['class']:30} {rule['trial']:9} {rule['promoted']:9}")
    return 0


@app.command()
def explain(
    rule: Annotated[
        str,
        typer.Argument(
            metavar="RULE", help="A rule or a class, as `ddops faults list` names it.", autocompletion=completing.rules
        ),
    ],
    as_json: JsonOption = False,
) -> int:
    """Explain a rule, or a class of them: what it means and what to do."""
    from .. import fault_pages, faults
    from . import output

    found = faults.explained(rule)
    if as_json:
        names = [each.name for each in found]
        records = [each for each in faults.listed() if each["rule"] in names]
        output.document(records[0] if rule in names else records)
    else:
        output.data(fault_pages.page(found[0].fault).rstrip())
    return 0


@app.command("test")
def tried(as_json: JsonOption = False) -> int:
    """Try every rule on its example and its look-alike."""
    from .. import faults
    from ..exit_codes import ExitCode
    from . import output

    proof = faults.tested()
    if as_json:
        output.document({"rules": proof.rules, "problems": proof.problems})
    else:
        for problem in proof.problems:
            output.data(problem)
        output.say(f"{proof.rules} rules, {len(proof.problems)} problems")
    return int(ExitCode.UNHEALTHY if proof.problems else ExitCode.OK)
