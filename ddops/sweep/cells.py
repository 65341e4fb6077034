"""The cells of a sweep: one release each, a budget with its graphs, its algorithm and its max running."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from ..errors import UsageError


@dataclass(frozen=True)
class Line:
    """What the cells of one curve share: only their budgets differ, and with them a topk of the profile's."""

    graphs: bool
    algorithm: str
    max_running: int
    topk: int | None = None

    @property
    def drafting(self) -> str:
        """Returns the algorithm, with its topk where it has one."""
        return self.algorithm if self.topk is None else f"{self.algorithm} k{self.topk}"

    def __str__(self) -> str:
        return f"graphs {'on' if self.graphs else 'off'}, {self.drafting}, max running {self.max_running}"


@dataclass(frozen=True)
class Cell:
    """One release to try; ``topk`` is None where the profile's is taken, or the algorithm has none."""

    budget: int
    graphs: bool
    algorithm: str
    max_running: int
    topk: int | None = None

    @property
    def line(self) -> Line:
        return Line(self.graphs, self.algorithm, self.max_running, self.topk)

    def other_graphs(self) -> Cell:
        """Returns its control: the same with graphs the other way."""
        return replace(self, graphs=not self.graphs)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"budget {self.budget}, {self.line}"


def of_json(record: dict[str, Any]) -> Cell:
    """Returns the cell that ``as_json`` wrote; raises KeyError or TypeError for anything else."""
    return Cell(record["budget"], record["graphs"], record["algorithm"], record["max_running"], record.get("topk"))


@dataclass(frozen=True)
class Grid:
    """What is asked for: each of these with each other. None stands for what the profile says."""

    budgets: tuple[int, ...]
    graphs: tuple[bool | None, ...] = (None,)
    algorithms: tuple[str | None, ...] = (None,)
    max_running: tuple[int | None, ...] = (None,)
    topk: tuple[int | None, ...] = (None,)

    def combinations(self) -> list[tuple[int, bool | None, str | None, int | None, int | None]]:
        """Returns budget, graphs, algorithm, max running and topk of each cell."""
        return list(product(self.budgets, self.graphs, self.algorithms, self.max_running, self.topk))


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Returns ``4,8,12`` or ``4-16:4`` (from, to, step) as numbers, ascending, each once.

    Raises UsageError for anything else.
    """
    found: set[int] = set()
    for part in text.replace(" ", "").split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6}))?)?", part, re.ASCII)
        if not match or (match[2] and int(match[2]) < int(match[1])) or match[3] in ("0", "00"):
            why = f"'{part}' is neither a number nor a range"
            raise UsageError(f"{option} '{text}' cannot be read", why, f"{option} 4,8,12 or {option} 4-16:4")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1)))
    if 0 in found:
        raise UsageError(f"{option} '{text}' cannot be read", "0 is none", f"{option} 4,8,12 or {option} 4-16:4")
    return tuple(sorted(found))


def switches(text: str) -> tuple[bool, ...]:
    """Returns ``on``, ``off`` or ``both``, graphs off first; raises UsageError for anything else."""
    known = {"off": (False,), "on": (True,), "both": (False, True)}
    if text not in known:
        raise UsageError(f"--graphs '{text}' cannot be read", "", "--graphs on, off or both")
    return known[text]


def names(text: str) -> tuple[str, ...]:
    """Returns a list of algorithms as SGLang writes them, each once; raises UsageError for a list of none."""
    found = tuple(dict.fromkeys(part.strip().upper() for part in text.split(",") if part.strip()))
    if not found:
        raise UsageError(f"--algorithm '{text}' names none", "", "--algorithm DDTREE,NGRAM")
    return found


def lines_of(cells: Sequence[Cell]) -> list[Line]:
    """Returns the lines of some cells, in their order."""
    return list(dict.fromkeys(cell.line for cell in cells))
