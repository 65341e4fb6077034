"""The soak: users are let in, and the release is asked and watched before it is promoted."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from . import service
from .errors import GateFailed, NoAnswer
from .gates.lossless import judge
from .gates.smoke import ask, raise_worst
from .operation import Operation
from .releases import Release

if TYPE_CHECKING:
    from .watch import EngineWatch

ROUND_EVERY_S = 2.0
_LATE_IN_A_ROW = 2
QUIET_JOURNAL_S = 10.0


def run(op: Operation, trial: Release, watch: EngineWatch, known: dict[str, Any] | None) -> None:
    """Asks for ``soak_s`` seconds; a fault in the journal or one wrong token is raised.

    An answer that comes late is a busy engine's: two in a row are raised. An engine that is asked writes lines; a
    journal without new ones proves nothing and does not pass.
    """
    seconds = float(op.request["soak_s"])
    with op.log.step("soak") as found:
        end = time.monotonic() + seconds
        rounds, late, next_at, lines = 0, 0, 0.0, watch.lines
        while (moment := time.monotonic()) < end:
            op.check()
            if moment >= next_at:
                try:
                    op.rather_its_fault(partial(_round, op, trial, known, rounds))
                    late = 0
                except NoAnswer as error:
                    late += 1
                    if late == _LATE_IN_A_ROW:
                        raise
                    op.log.write("warning", what=f"{error.what}: {error.why}; asked again")
                rounds, next_at = rounds + 1, moment + ROUND_EVERY_S
            time.sleep(min(0.05, max(0.0, end - moment)))
        if late:  # it may hang: what came last decides
            op.rather_its_fault(partial(_round, op, trial, known, rounds))
        if seconds >= QUIET_JOURNAL_S and watch.lines == lines:
            raise GateFailed("the journal of this invocation fell silent in the soak", f"{rounds} rounds, no new line")
        op.check()
        found.update(rounds=rounds, lines=watch.lines - lines)


def _round(op: Operation, trial: Release, known: dict[str, Any] | None, number: int) -> None:
    """Asks a question and has a recorded prompt generated, at once: some faults show only in company.

    Without a known-good there is nothing recorded, and two questions are asked.
    """
    engine, gates, seconds = service.engine_of(trial), trial.gates, trial.deadlines["answer"]
    questions, tokens = gates["smoke"]["questions"], gates["smoke"]["max_tokens"]
    question = questions[number % len(questions)]
    with ThreadPoolExecutor(2) as pool:
        jobs: list[Future[Any]] = [pool.submit(ask, engine, question, tokens, seconds, stream=False)]
        if known:
            reference = known["references"][number % len(known["references"])]
            jobs.append(pool.submit(judge, engine, reference, gates["lossless"], seconds))
        else:
            jobs.append(pool.submit(ask, engine, question, tokens, seconds, stream=True))
    raise_worst(jobs)
    op.progress("soak", f"right answer to {question['prompt']!r}")
