"""A sweep before and while it runs: its plan, and a line for each cell."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..sweep.prediction import cell_seconds, in_words
from .output import OutputLost, data, paint, say
from .swept import WORDS

if TYPE_CHECKING:
    from ..sweep.cells import Cell
    from ..sweep.planning import SweepPlan
    from ..sweep.result import Result
    from ..sweep.study import Study


def show_plan(made: SweepPlan, write: Callable[[str], None], within_s: float | None = None) -> None:
    """Says what a sweep would do, cell by cell, how long it takes, and how much of it is done in a time."""
    plan = made.describe()
    good, measure, drill = plan["known_good"], plan["question"]["measure"], plan["question"]["drill"]
    write(f"{paint('sweep', 'bold')}: {plan['service']} on {plan['hostname']}, profile {plan['profile']}")
    budget = f", budget {good['budget']}" if "budget" in good else ", adopted"
    write(f"  way back  release {good['release']} ({good['unit']}{budget}), after every cell")
    streams = ", ".join(str(c) for c in measure["concurrency"])
    write(
        f"  measure   at {streams} at a time: {measure['repeats']} x {measure['requests']} requests of "
        f"{measure['tokens']} tokens"
    )
    if drill:
        write(f"  {paint('drill', 'yellow')}     {drill['name']} above budget {drill['above']}: they break on purpose")
    if made.bisects:
        budgets = sorted({cell.budget for cell in made.cells})
        write(f"  bisect    {len(budgets)} budgets from {budgets[0]} to {budgets[-1]}: {made.tries} cells at most")
    else:
        for at, cell in enumerate(made.cells, 1):
            proof = made.proven_bad.get(cell)
            write(f"  {'cells' if at == 1 else '':9} {at:>2} {cell}{_remark(made, cell, proof)}")
    for result in made.ruled_out:
        write(f"  {'':9} -- {result.cell}: cannot be, {result.reason}")
    at_least = "at least " if made.prediction.missing else "about "
    total = in_words(plan["seconds"]) if made.prediction.seconds else "not known"
    write(f"  time      {at_least}{total} for {made.tries} cells, as last measured on this host; a cell:")
    write(f"            {made.prediction} s")
    if within_s is not None and (fit := fitting(made, within_s)) is not None:
        most = "at most " if made.prediction.missing else ""
        some = f"{most}{fit} of {made.tries} cells end" if fit else "no cell ends"
        write(f"            {some} within the {in_words(within_s)} of --for")
    write("            nobody is served in that time: the front is closed from a cell's drain to its return")


def fitting(made: SweepPlan, within_s: float) -> int | None:
    """Returns how many of a plan's cells end within a time, as predicted; None where nothing is known of a cell."""
    each = made.prediction.seconds
    return min(made.tries, max(0, math.ceil(within_s / each) - 1)) if each else None


def _remark(made: SweepPlan, cell: Cell, proof: str | None) -> str:
    if proof:
        return ": proven bad here, not tried without --force"
    if drill := made.setup.drill_of(cell):
        return f": with the drill {drill.name}"
    return ": known-good's own, the base" if cell == made.setup.base else ""


class Sweeping:
    """Prints what happens in a sweep: a line for each cell that begins and ends, its steps between them.

    With JSON each cell that ended is a line on stdout, too.
    """

    def __init__(self, steps: Callable[[dict[str, Any]], None], made: SweepPlan, *, as_json: bool) -> None:
        self._steps, self._made, self._as_json = steps, made, as_json
        self._study: Study | None = None
        self._tried = 0
        self.failed: OutputLost | None = None  # what could not be written must not end a sweep

    def __call__(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "sweep-study":
            self._study = event["study"]
            self._opened(event["study"])
        elif kind == "sweep-cell":
            self._cell(event)
        elif kind == "sweep-taken-up":
            say(f"{paint('taking up', 'bold')} operation {event['operation']}: {event['cell']}")
        elif kind == "sweep-ended":
            self._ended(event["result"])
        else:
            self._steps(event)

    def _opened(self, study: Study) -> None:
        known = sum(result.decided for result in study.found)
        goes_on = f"going on with it, {known} cells are known" if known or study.open else "a new one"
        say(f"study: {study.path}: {goes_on}")

    def _cell(self, event: dict[str, Any]) -> None:
        left = max(1, self._made.tries - event["known"])
        self._tried += event["attempt"] == 1
        each = cell_seconds(self._made.prediction, self._study.found if self._study else ())
        time = f", about {in_words(left * each)} for {left} at most" if each else ""
        again = ", once more" if event["attempt"] > 1 else ""
        say(f"{paint(f'cell {self._tried}', 'bold')}: {event['cell']}{again}{time}")

    def _ended(self, result: Result) -> None:
        from ..sweep import rows

        say(f"  {says(result)}")
        if self._as_json and self._study:
            try:
                data(json.dumps(rows.cell_json(self._study, result)))
            except OutputLost as lost:
                self.failed = lost


def says(result: Result) -> str:
    """Returns what came of a cell, in a line."""
    if result.status == "good":
        figures = ", ".join(f"{row['tok_s'] or 0:.1f} tok/s at {row['concurrency']}" for row in result.measured)
        accept = f", accept length {result.accept_length:.2f}" if result.accept_length else ""
        return f"{paint('measured', 'green')} {figures}{accept}; known-good serves again"
    word, colour = WORDS[result.status]
    down = "; THE SERVICE IS DOWN" if result.down else ""
    return f"{paint(word, colour)}: {result.reason}{down}"
