"""What a sweep is asked for, put together from words; whatever cannot be meant is found before anybody connects."""

from __future__ import annotations

from .. import deploy, drafting
from ..deploy import Request
from ..errors import DdopsError, Refused, UsageError
from ..profile import Profile
from ..settings import Asked
from ..site import Site
from .cells import Cell, Grid, names, numbers, switches
from .result import Result
from .trying import Drill, Measure

_CONCURRENCY = (1, 4, 16)


def grid(
    profile: Profile,
    asked: Asked,
    budgets: str | None,
    graphs: str | None,
    algorithm: str | None,
    max_running: str | None,
    topk: str | None = None,
    *,
    bisects: bool,
) -> Grid:
    """Returns the grid that lists spell out; what none of them names is as in ``asked``, or the profile's.

    Raises UsageError for a list that cannot be read, and where no budget is named.
    """
    if budgets is not None:
        wanted = numbers("--budgets", budgets)
    elif asked.budget is not None:
        wanted = (asked.budget,)
    elif bisects:
        wanted = tuple(range(1, profile.budget.max + 1))
    else:
        raise UsageError("which budgets?", "a sweep tries those that are named", "--budgets 4,8,12 or 4-64:4; --bisect")
    return Grid(
        wanted,
        switches(graphs) if graphs is not None else (asked.graphs,),
        names(algorithm) if algorithm else (asked.algorithm,),
        numbers("--max-running", max_running) if max_running is not None else (asked.max_running,),
        numbers("--topk", topk) if topk is not None else (asked.topk,),
    )


def measure(cells: list[Cell], concurrency: str | None, requests: int, tokens: int, repeats: int) -> Measure:
    """Returns what is measured of each cell; where nobody says, at no more streams than every cell runs at once."""
    if concurrency is not None:
        streams = numbers("--concurrency", concurrency)
    else:
        most = min(cell.max_running for cell in cells)
        streams = tuple(c for c in _CONCURRENCY if c <= most)
    return Measure(streams, requests, tokens, repeats)


def drill(name: str | None, above: int | None, after_steps: int, *, on_production: bool) -> Drill | None:
    """Returns the drill, above no budget in particular where nobody says; raises UsageError for one that is none."""
    if name is None:
        if above is not None or after_steps:
            raise UsageError("--drill-above or --drill-after without a drill", "", "--drill illegal-access or garbage")
        return None
    deploy.must_be_a_drill(name)
    return Drill(name, above, after_steps, on_production)


def cells_of(profile: Profile, site: Site, of: Grid) -> tuple[list[Cell], list[Result]]:
    """Returns the cells of a grid, each value that nobody named filled in, and those that cannot be, with the reason.

    Raises what is wrong where not one of them can be, and UsageError for a budget or a name that is none.
    """
    able: list[Cell] = []
    ruled_out: list[Result] = []
    last: DdopsError | None = None
    for budget, graphs, algorithm, running, topk in of.combinations():
        named = Cell(
            budget,
            profile.graphs.default if graphs is None else graphs,
            algorithm or profile.speculation[0].algorithm,
            profile.limits.max_running if running is None else running,
            topk,
        )
        try:
            options, _ = deploy.options_of(profile, site, Request(asked=Asked(budget, graphs, running, algorithm)))
        except Refused as error:
            last = error
            ruled_out.append(Result(named, "impossible", error.what, error.why))
            continue
        cell = Cell(budget, options.graphs, options.drafting.algorithm, options.limits.max_running, topk)
        try:
            drafting.candidates(options.drafting, budget, topk)
        except UsageError as error:
            last = error
            ruled_out.append(Result(cell, "impossible", error.what, error.why))
            continue
        able.append(cell)
    if not able and last is not None:
        raise last
    return able, ruled_out
