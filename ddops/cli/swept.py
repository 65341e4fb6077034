"""A study as people see it: its table, what failed with the lines of it, its plots, its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..errors import DdopsError
from .output import data, paint, say

if TYPE_CHECKING:
    from pathlib import Path

    from ..sweep.result import Result
    from ..sweep.running import Ended
    from ..sweep.study import Study

_HEAD = "budget graphs running algorithm at once    tok/s spread accept projected   miss"
WORDS = {
    "bad": ("FAILED", "red"),
    "known-bad": ("not tried, proven bad here", "red"),
    "unknown": ("could not be told", "yellow"),
    "skipped": ("skipped", "dim"),
    "impossible": ("cannot be", "dim"),
}


def show(study: Study) -> None:
    """Prints a study: its table, each failure with its lines, the plot, the ceilings."""
    from ..sweep import rows
    from ..sweep.chart import chart

    for line in table(study):
        data(line)
    failures = [r for r in rows.by_line(study) if r.status in ("bad", "known-bad", "unknown") or r.down]
    if failures:
        data("")
    for result in failures:
        for line in failure(result):
            data(line)
    if any(result.lines for result in failures):
        data(f"  the last lines of each engine: ddops study {study.path} --json")
    for concurrency in study.question["measure"]["concurrency"][:1]:
        if plot := chart(study, int(concurrency)):
            data("")
            for line in plot:
                data(line)
    data("")
    for ceiling in rows.ceilings(study):
        data(f"ceiling: {ceiling}")
    if drill := study.question["drill"]:
        data(f"drill: {drill['name']} was planted above budget {drill['above']}, a ceiling there is its own")
    if not study.complete:
        data(f"not finished: {study.stopped or 'its client was lost, or still runs'}")


def table(study: Study) -> list[str]:
    """Returns the table, in 80 columns; what is in no column stands below it."""
    from ..sweep import rows
    from ..sweep.cells import of_json

    lines, before = [_HEAD], None
    for row in rows.rows(study):
        cell = of_json(row)
        first, before = cell != before, cell
        if row["status"] != "good":
            if first:
                lines.append(_fitted(f"{_cell(row)} {_outcome(row)}"))
            continue
        lines.append(f"{_cell(row) if first else ' ' * 31} {_figures(row)}".rstrip())
    return lines


def _cell(row: dict[str, Any]) -> str:
    from ..sweep.cells import of_json

    graphs = "on" if row["graphs"] else "off"
    return f"{row['budget']:>6} {graphs:6} {row['max_running']:>7} {of_json(row).line.drafting:9}"


def _figures(row: dict[str, Any]) -> str:
    def shown(value: float | None, width: int, shape: str) -> str:
        return " " * width if value is None else f"{value:{width}{shape}}"

    miss = " " * 6 if row["miss"] is None else f"{row['miss']:>+6.0%}"
    base = "base" if row["projected_tok_s"] is None and row["accept_length"] else ""
    projected = f"{base:>9}" if row["projected_tok_s"] is None else shown(row["projected_tok_s"], 9, ".1f")
    speed = f"{shown(row['tok_s'], 8, '.1f')} {shown(_spread(row), 6, '.0%')}"
    figures = f"{speed} {shown(row['accept_length'], 6, '.2f')} {projected} {miss}"
    return f"{row['concurrency']:>7} {figures}"


def _spread(row: dict[str, Any]) -> float | None:
    """Returns how far the slowest and the fastest run are apart, of the median."""
    return (row["tok_s_max"] - row["tok_s_min"]) / row["tok_s"] if row["tok_s"] and row["tok_s_min"] else None


def _outcome(row: dict[str, Any]) -> str:
    word = WORDS[row["status"]][0]
    if row["status"] == "bad":
        found = f"{row['rule'] or row['reason']} in {row['step']}" if row["step"] else row["reason"]
        upside = f"; projected {row['projected_tok_s']:.1f}" if row["projected_tok_s"] else ""
        return f"{word} {found}{upside}"
    return f"{word}: {row['reason']}"


def _fitted(line: str) -> str:
    return line if len(line) <= 80 else line[:79] + "…"


def failure(result: Result) -> list[str]:
    """Returns a failure with the lines that prove it."""
    word = WORDS[result.status][0]
    where = f" in {result.step}" if result.step else ""
    drill = f" [drill {result.drill}]" if result.drill else ""
    operation = f", operation {result.operation}" if result.operation else ""
    lines = [f"budget {result.cell.budget}, {result.cell.line}: {word}{where}{drill}{operation}", f"  {result.reason}"]
    if result.why:
        lines.append(f"  {result.why}")
    for fault in result.faults:
        lines.append(f"  {fault['rule']}, written by pid {fault['pid']}:")
        lines += [f"    {text}" for text in str(fault["line"]).strip().splitlines()[-2:]]
    return lines


def keep(study: Study, csv: Path | None, plot: Path | None) -> None:
    """Writes what was asked for beside the study."""
    from ..sweep import rows

    if csv:
        rows.write_csv(study, csv)
        say(f"written: {csv}")
    if plot:
        from ..sweep import picture

        picture.write(study, plot)
        say(f"written: {plot}")


def tell(
    study: Study,
    ended: Ended,
    csv: Path | None,
    plot: Path | None,
    failed: DdopsError | None = None,
    *,
    as_json: bool,
) -> int:
    """Prints what a sweep has found and how it ended; returns the exit code.

    What could not be written, now or on the way (``failed``), is raised after all was said: the study has it all, and
    the exit code is the host's truth.
    """
    from ..sweep import rows

    say()
    try:
        if as_json:
            data(json.dumps(rows.result_json(study, int(ended.code))))
        else:
            show(study)
        keep(study, csv, plot)
    except DdopsError as error:
        failed = error
    say(f"study: {study.path}")
    if not ended.done:
        say(f"{paint('stopped:', 'red' if ended.code else 'yellow')} {ended.why}")
        first = "ddops status; then " if ended.code else ""
        say(f"\nhint: {first}the same command goes on with the study")
    if failed:
        failed.exit_code = ended.code or failed.exit_code
        raise failed
    return int(ended.code)


def brief(study: Study) -> str:
    """Returns a study in a line of a list."""
    counted = sum(result.decided for result in study.found)
    state = "finished" if study.complete else "unfinished"
    budgets = [cell["budget"] for cell in study.question["cells"]]
    head = study.head
    what = f"{head['service']} on {head['host']}, {head['profile']}, budgets {min(budgets)} to {max(budgets)}"
    return f"{head['time'][:16]}  {state:10}  {what}, {counted} known  {study.path}"
