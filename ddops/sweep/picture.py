"""A study as a picture: tokens a second and accept length against the budget, failed cells marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import Refused, UsageError
from .cells import of_json
from .rows import ceilings, known_good, rows
from .study import Study

KINDS = (".svg", ".png")
# told apart by those who see no red or no green as well (Okabe and Ito); graphs on and off by marker and dash, too
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_BAD = "#B00020"


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
    """Draws a study; raises as ``check``, and UsageError where the file cannot be written."""
    check(path)
    pyplot = _pyplot()
    with pyplot.rc_context({"svg.hashsalt": "ddops", "svg.fonttype": "none", "font.size": 10}):
        figure, (speed, accepted) = pyplot.subplots(
            2, 1, figsize=(9, 7), sharex=True, height_ratios=(3, 2), layout="constrained"
        )
        _draw(study, speed, accepted)
        figure.suptitle(_title(study), fontsize=11)
        try:
            pyplot.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        except OSError as error:
            raise UsageError(f"cannot write {path}", error.strerror or str(error)) from None
        finally:
            pyplot.close(figure)


def _title(study: Study) -> str:
    head = study.head
    sglang = (head.get("stack") or {}).get("sglang")
    drill = study.question["drill"]
    planted = f", drill {drill['name']} above budget {drill['above']}" if drill else ""
    return f"{head['service']} on {head['hostname']}, profile {head['profile']}, SGLang {sglang}{planted}"


def _draw(study: Study, speed: Any, accepted: Any) -> None:
    found = rows(study)
    several = {key: len({row[key] for row in found}) > 1 for key in ("algorithm", "max_running")}
    streams = [int(c) for c in study.question["measure"]["concurrency"]]
    curves = list(dict.fromkeys((r["graphs"], r["algorithm"], r["max_running"]) for r in found))
    for curve in curves:
        graphs, algorithm, running = curve
        of_curve = [r for r in found if (r["graphs"], r["algorithm"], r["max_running"]) == curve]
        name = f"graphs {'on' if graphs else 'off'}"
        name += f", {algorithm}" if several["algorithm"] else ""
        name += f", max running {running}" if several["max_running"] else ""
        look: dict[str, Any] = {"marker": "o" if graphs else "s", "linestyle": "-" if graphs else "--"}
        for at, concurrency in enumerate(streams):
            good = [r for r in of_curve if r["concurrency"] == concurrency and r["status"] == "good"]
            colour = _COLOURS[(at + curves.index(curve) * len(streams)) % len(_COLOURS)]
            label = f"{name}, {concurrency} at a time"
            _curve(speed, good, "tok_s", {**look, "color": colour, "label": label})
            _spread(speed, good, colour)
            made = [r for r in of_curve if r["concurrency"] == concurrency and r["projected_tok_s"] is not None]
            if at == 0:
                label = "projected: base x ratio of accept lengths" if curve == curves[0] else ""
                x, y = [r["budget"] for r in made], [r["projected_tok_s"] for r in made]
                speed.plot(x, y, "_", color=colour, markersize=18, markeredgewidth=1.6, label=label if made else "")
        first = [r for r in of_curve if r["concurrency"] == streams[0] and r["status"] == "good"]
        _curve(
            accepted,
            first,
            "accept_length",
            {**look, "color": _COLOURS[curves.index(curve) * len(streams) % 6], "label": name},
        )
    _failures(study, speed)
    _axes(study, speed, accepted)


def _curve(axes: Any, of: list[dict[str, Any]], key: str, look: dict[str, Any]) -> None:
    points = [(r["budget"], r[key]) for r in of if r[key] is not None]
    if points:
        axes.plot([x for x, _ in points], [y for _, y in points], **look)


def _spread(axes: Any, of: list[dict[str, Any]], colour: str) -> None:
    """Shows the slowest and the fastest run of each cell."""
    for r in of:
        if r["tok_s_min"] is not None:
            axes.plot([r["budget"]] * 2, [r["tok_s_min"], r["tok_s_max"]], color=colour, linewidth=1, alpha=0.6)


def _failures(study: Study, axes: Any) -> None:
    """Marks each cell that failed at the foot of the plot, with the rule or the step that says why."""
    seen = set()
    marked: dict[int, int] = {}
    for result in study.found:
        if result.status not in ("bad", "known-bad", "unknown"):
            continue
        bad = result.status != "unknown"
        label = "failed" if bad else "could not be told"
        look = {"color": _BAD if bad else "#777777", "marker": "X" if bad else "$?$", "s": 90, "zorder": 5}
        row = marked[result.cell.budget] = marked.get(result.cell.budget, -1) + 1
        height = 0.03 + 0.06 * row
        at = axes.get_xaxis_transform()
        axes.scatter([result.cell.budget], [height], transform=at, label="" if label in seen else label, **look)
        seen.add(label)
        why = result.faults[-1]["rule"] if result.faults else result.step or "proven bad here"
        graphs = "on" if result.cell.graphs else "off"
        axes.annotate(
            f"{why}\n(graphs {graphs})", (result.cell.budget, height), xycoords=at, xytext=(0, 9),
            textcoords="offset points", fontsize=8, color=look["color"], ha="center", va="bottom",
        )  # fmt: skip


def _axes(study: Study, speed: Any, accepted: Any) -> None:
    budgets = sorted({of_json(cell).budget for cell in study.question["cells"]} & {r.cell.budget for r in study.found})
    speed.set_ylabel("tokens a second, all streams")
    accepted.set_ylabel("accept length, tokens a verify step")
    accepted.set_xlabel("budget B: draft-tree nodes (verify width N = B + 1)")
    accepted.set_xticks(budgets)
    speed.set_ylim(bottom=0)
    base = known_good(study)
    for axes in (speed, accepted):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if base is not None:
            label = f"known-good: budget {base}" if axes is speed else ""
            axes.axvline(base, color="#999999", linewidth=1, linestyle=":", label=label)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            axes.legend(handles, labels, fontsize=8, frameon=False, loc="best")
    said = [str(c) for c in ceilings(study) if c.budget is not None or c.fails_at is not None]
    if said:
        speed.set_title("\n".join(said[:4]), fontsize=9, loc="left", color="#444444")
