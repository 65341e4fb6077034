"""A study as a picture: tokens a second and accept length against the budget, and which cells failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import Refused, UsageError
from .cells import Line, lines_of, of_json
from .result import Result
from .rows import ceilings, known_good, rows
from .study import Study

KINDS = (".svg", ".png")
# a kind each, told apart by those who see no red or no green as well (Okabe and Ito); graphs by marker and dash
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_BAD, _GREY = "#B00020", "#777777"
_MARKS: dict[str, tuple[str, str, int, str]] = {  # marker, colour, size, what the legend says
    "good": ("o", "#3A7D44", 45, "passed"),
    "bad": ("X", _BAD, 80, "failed"),
    "known-bad": ("X", _BAD, 80, "failed"),
    "unknown": ("$?$", _GREY, 70, "could not be told"),
    "skipped": ("_", _GREY, 60, "skipped"),
}


def check(path: Path) -> None:
    """Raises UsageError for a kind of file that no picture is, Refused where what draws it is not installed."""
    if path.suffix not in KINDS:
        raise UsageError(f"--plot {path}", "its name tells what it is", "--plot FILE.svg or --plot FILE.png")
    _pyplot()


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise Refused(
            "matplotlib is not installed, it draws the picture",
            "ddops needs it for --plot alone, and does without",
            "pip install 'ddops[plot]', or pip install matplotlib beside ddops",
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def write(study: Study, path: Path) -> None:
    """Draws a study; raises as ``check``, UsageError where it cannot be written, Refused where nothing is known."""
    check(path)
    if not study.found:
        raise Refused(f"{path} was not drawn", "the study has no cell yet", "the sweep goes on with the same command")
    pyplot = _pyplot()
    lines = lines_of([r.cell for r in study.found if r.status != "impossible"])
    streams = [int(c) for c in study.question["measure"]["concurrency"]]
    strip = 0.5 + 0.3 * len(lines)
    heights = (*[2.4] * len(streams), 2.2, strip)
    with pyplot.rc_context({"svg.hashsalt": "ddops", "svg.fonttype": "none", "font.size": 10}):
        figure, panels = pyplot.subplots(
            len(heights), 1, figsize=(10, 0.6 + sum(heights)), sharex=True, height_ratios=heights, layout="constrained"
        )
        *speeds, accepted, passed = panels
        _curves(study, lines, dict(zip(streams, speeds, strict=True)), accepted)
        _strip(study, lines, passed)
        _finish(study, dict(zip(streams, speeds, strict=True)), accepted, passed)
        figure.suptitle(_title(study), fontsize=11, x=0.02, ha="left")
        figure.legend(loc="outside right upper", fontsize=8, frameon=False)
        try:
            pyplot.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        except OSError as error:
            raise UsageError(f"cannot write {path}", error.strerror or str(error)) from None
        finally:
            pyplot.close(figure)


def _title(study: Study) -> str:
    head = study.head
    drill = study.question["drill"]
    planted = f", drill {drill['name']} above budget {drill['above']}" if drill else ""
    sglang = (head.get("stack") or {}).get("sglang")
    return f"{head['service']} on {head['hostname']}, profile {head['profile']}, SGLang {sglang}{planted}"


def _name(line: Line, lines: list[Line]) -> str:
    """Returns what tells a line from the others."""
    parts = [f"graphs {'on' if line.graphs else 'off'}"]
    parts += [line.drafting] if len({each.drafting for each in lines}) > 1 else []
    parts += [f"max running {line.max_running}"] if len({each.max_running for each in lines}) > 1 else []
    return ", ".join(parts)


def _curves(study: Study, lines: list[Line], speeds: dict[int, Any], accepted: Any) -> None:
    """Draws each line in every panel: a panel for each concurrency, since their tokens a second are far apart."""
    found = [row for row in rows(study) if row["status"] == "good" or row["projected_tok_s"] is not None]
    kinds = list(dict.fromkeys((line.drafting, line.max_running) for line in lines))
    levels = _levels(study, lines)
    for line in lines:
        of_line = [row for row in found if of_json(row).line == line]
        colour = _COLOURS[kinds.index((line.drafting, line.max_running)) % len(_COLOURS)]
        level = line in levels
        name = _name(line, lines) + (f", budget {levels[line]}" if level else "")
        for at, (concurrency, speed) in enumerate(speeds.items()):
            of_curve = [row for row in of_line if row["concurrency"] == concurrency]
            look = _look(line, level=level) | {"color": colour, "label": "" if at else name}
            _curve(speed, of_curve, "tok_s", look, level=level)
            for row in of_curve:
                if row["tok_s_min"] is not None:
                    speed.plot([row["budget"]] * 2, [row["tok_s_min"], row["tok_s_max"]], color=colour, alpha=0.5)
                if row["projected_tok_s"] is not None:
                    speed.plot(row["budget"], row["projected_tok_s"], "_", color=colour, ms=20, mew=1.4)
            if at == 0:
                _curve(accepted, of_curve, "accept_length", look | {"label": ""}, level=level)
    if any(row["projected_tok_s"] is not None for row in found):
        label = "projected: the base's tok/s x\nratio of accept lengths"
        next(iter(speeds.values())).plot([], [], "_", color=_GREY, ms=20, mew=1.4, label=label)


def _levels(study: Study, lines: list[Line]) -> dict[Line, int]:
    """Returns the lines of a single budget, with it, where others have more: plain decoding, a chain."""
    tried = {line: {r.cell.budget for r in study.found if r.cell.line == line} for line in lines}
    trees = any(len(budgets) > 1 for budgets in tried.values())
    return {line: min(budgets) for line, budgets in tried.items() if trees and len(budgets) == 1}


def _look(line: Line, *, level: bool) -> dict[str, Any]:
    if level:
        return {"linestyle": "-." if line.graphs else ":"}
    return {"marker": "o" if line.graphs else "s", "linestyle": "-" if line.graphs else "--"}


def _curve(axes: Any, of: list[dict[str, Any]], key: str, look: dict[str, Any], *, level: bool) -> None:
    points = [(row["budget"], row[key]) for row in of if row[key] is not None]
    if points and level:
        axes.axhline(points[0][1], **look)
    elif points:
        axes.plot([x for x, _ in points], [y for _, y in points], **look)


def _strip(study: Study, lines: list[Line], axes: Any) -> None:
    """Shows of every cell whether it passed, and beside a failure the rule or the step that says why."""
    named: set[str] = set()
    for result in study.found:
        if result.status not in _MARKS:
            continue
        marker, colour, size, label = _MARKS[result.status]
        at = (result.cell.budget, lines.index(result.cell.line))
        axes.scatter(*at, marker=marker, s=size, color=colour, label="" if label in named else label, zorder=3)
        named.add(label)
        if why := _why(result):
            axes.annotate(
                why, at, xytext=(0, 8), textcoords="offset points", fontsize=7, color=colour, ha="center", va="bottom"
            )
    axes.set_yticks(range(len(lines)), [_name(line, lines) for line in lines], fontsize=8)
    axes.set_ylim(-0.5, len(lines) - 0.3)


def _why(result: Result) -> str:
    if result.status == "known-bad":
        return "proven bad here"
    return (result.faults[-1]["rule"] if result.faults else result.step) if result.status == "bad" else ""


def _finish(study: Study, speeds: dict[int, Any], accepted: Any, passed: Any) -> None:
    for concurrency, speed in speeds.items():
        speed.set_ylabel(f"tokens a second,\n{concurrency} at a time")
        speed.set_ylim(bottom=0)
    accepted.set_ylabel("tokens a verify step")
    accepted.set_ylim(bottom=1)  # plain decoding
    passed.set_xlabel("budget B: draft-tree nodes (verify width N = B + 1)")
    budgets = sorted({r.cell.budget for r in study.found})
    if budgets[-1] > 16 * budgets[0]:
        passed.set_xscale("log", base=2)
    passed.set_xticks(budgets, [str(budget) for budget in budgets], minor=False)
    passed.set_xticks([], minor=True)
    base = known_good(study)
    first = next(iter(speeds.values()))
    for axes in (*speeds.values(), accepted, passed):
        axes.margins(x=0.07)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if base is not None:
            label = f"known-good: budget {base}" if axes is first else ""
            axes.axvline(base, color="#999999", linewidth=1, linestyle=":", label=label)
    levels = _levels(study, lines_of([r.cell for r in study.found]))
    told = [c for c in ceilings(study) if c.line not in levels or c.fails_at is not None]
    said = [str(c) for c in told if c.budget is not None or c.fails_at is not None]
    first.set_title("\n".join(said[:4]), fontsize=9, loc="left", color="#444444")
