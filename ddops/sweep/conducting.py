"""A sweep from its plan to its end: the study is opened, what was left open is taken up, cell after cell is tried."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..errors import DdopsError, Interrupted, Unreachable
from . import running, study, trying
from .cells import of_json
from .planning import SweepPlan
from .prediction import cell_seconds
from .running import Ended, Report
from .stopping import Limits
from .study import Study


def conduct(made: SweepPlan, path: Path | None, limits: Limits, report: Report, *, fresh: bool) -> tuple[Study, Ended]:
    """Carries out a plan and returns the study and why it ended.

    ``path`` is the study's file; None: an unfinished one of the same question, or a new one. Raises Refused and
    Locked as ``study.writing``; Unreachable and Interrupted say how to go on.
    """
    path = path or study.place(study.folder(), made.head, fresh=fresh)
    with study.writing(path, made.head) as of:
        report({"event": "sweep-study", "study": of})
        for result in made.ruled_out:
            if result.cell not in of.results:
                of.write("ended", result=result.as_json())
        try:
            if left := trying.settle(made.setup, of, report):
                of.write("ended", result=left.as_json())
                report({"event": "sweep-ended", "result": left})
                if left.down:
                    return of, running.stopped(of, running.DOWN)
            attempt = partial(trying.patiently, made.setup, of, report)
            ended = running.run(
                of, made.choose(), attempt, limits, report, lambda: cell_seconds(made.prediction, of.found)
            )
        except (Interrupted, Unreachable) as error:
            raise _goes_on(error, of) from None
        except KeyboardInterrupt:
            raise _goes_on(_interrupted(made.setup.entry.address, of), of) from None
    return of, ended


def _interrupted(address: str, of: Study) -> Interrupted:
    if left := of.open:
        why = f"it may be under way at {address}, which ends it by itself"
        return Interrupted(f"interrupted while the cell of {of_json(left['cell'])} was begun", why)
    return Interrupted("interrupted between two cells", f"nothing is under way at {address}, known-good serves")


def _goes_on(error: DdopsError, of: Study) -> DdopsError:
    """Returns the error with the way to go on: the study has all that ended, the host ends the rest by itself."""
    known = sum(result.decided for result in of.found)
    return type(error)(
        error.what, f"{error.why}; {known} cells are in {of.path}", "the same command goes on with that study"
    )
