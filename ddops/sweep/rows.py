"""A study as rows, one for each cell and concurrency: what the table, the JSON, the CSV and the plots are made of."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from ..errors import UsageError
from . import ceiling
from .cells import of_json
from .projection import projection
from .result import Result
from .study import Study

COLUMNS = (
    *("budget", "verify_width", "graphs", "algorithm", "topk", "max_running", "status", "concurrency"),
    *("tok_s", "tok_s_min", "tok_s_max", "stream_tok_s", "ttft_ms", "accept_length", "failed"),
    *("projected_tok_s", "miss", "base_budget"),
    *("step", "rule", "reason", "drill", "seconds", "operation", "release"),
)


def rows(study: Study) -> list[dict[str, Any]]:
    """Returns a row for each cell and concurrency, by line and budget; figures that nobody has are None."""
    found = []
    for result in by_line(study):
        for concurrency in study.question["measure"]["concurrency"]:
            found.append(_row(study, result, int(concurrency)))
    return found


def by_line(study: Study) -> list[Result]:
    """Returns the results in the order of a curve: algorithm, graphs, max running, then budget."""

    def place(result: Result) -> tuple[str, int, bool, int, int]:
        cell = result.cell
        return cell.algorithm, cell.topk or 0, cell.graphs, cell.max_running, cell.budget

    return sorted(study.found, key=place)


def known_good(study: Study) -> int | None:
    """Returns the budget of the release that was known-good when the study began."""
    base = study.head.get("base")
    return of_json(base).budget if base else None


def _row(study: Study, result: Result, concurrency: int) -> dict[str, Any]:
    measured = result.at(concurrency) or {}
    runs = [value for value in measured.get("tok_s_runs") or [] if value is not None]
    made = projection(result, study.found, concurrency, known_good(study))
    accept = measured.get("accept_length")
    return {
        **result.cell.as_json(),
        "verify_width": result.cell.budget + 1,
        "status": result.status,
        "concurrency": concurrency,
        **{key: measured.get(key) for key in ("tok_s", "stream_tok_s", "ttft_ms", "failed")},
        "tok_s_min": min(runs, default=None),
        "tok_s_max": max(runs, default=None),
        "accept_length": accept if accept is not None else result.accept_length if measured else None,
        "projected_tok_s": round(made.projected, 2) if made else None,
        "miss": round(made.miss, 4) if made and made.miss is not None else None,
        "base_budget": made.base if made else None,
        **{key: getattr(result, key) for key in ("step", "reason", "drill", "seconds", "operation", "release")},
        "rule": result.faults[-1]["rule"] if result.faults else None,
    }


def ceilings(study: Study) -> list[ceiling.Ceiling]:
    """Returns the ceiling of each line."""
    return ceiling.ceilings(study.found, [of_json(cell) for cell in study.question["cells"]])


def cell_json(study: Study, result: Result) -> dict[str, Any]:
    """Returns a cell with its projections, for a line of JSON."""
    made = [
        p.as_json()
        for concurrency in study.question["measure"]["concurrency"]
        if (p := projection(result, study.found, int(concurrency), known_good(study)))
    ]
    return {"event": "cell", **result.as_json(), "projections": made}


def result_json(study: Study, code: int) -> dict[str, Any]:
    """Returns what the whole study says, for the last line of JSON."""
    counted: dict[str, int] = {}
    for result in study.found:
        counted[result.status] = counted.get(result.status, 0) + 1
    return {
        "event": "result",
        "study": str(study.path),
        "finished": study.complete,
        "stopped": study.stopped,
        "cells": counted,
        "ceilings": [c.as_json() for c in ceilings(study)],
        "exit_code": code,
    }


def write_csv(study: Study, path: Path) -> None:
    """Writes the rows as CSV; raises UsageError where the file cannot be written."""
    try:
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows(study))
    except OSError as error:
        raise UsageError(f"cannot write {path}", error.strerror or str(error)) from None
