"""The campaign's tables and picture, from its studies: nothing in them is written by hand.

    python -m benchmarks.device.report docs/campaign/budgets.jsonl [--plot docs/campaign/budgets.svg]

A step's time is the accept length over the tokens a second of one stream, both from the middle of the answers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import Any

from ddops.sweep import study as studies
from ddops.sweep.picture import check
from ddops.sweep.projection import projection
from ddops.sweep.result import Result

_CHAIN, _TREE, _PLAIN = "DFLASH", "DDTREE", "PLAIN"
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#777777"


def main() -> None:
    """Prints a table for graphs on and off and each concurrency, and the ratios to the chain."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    study = studies.read(args.study)
    for concurrency in study.question["measure"]["concurrency"]:
        for graphs in (True, False):
            found = [r for r in study.found if r.cell.graphs is graphs and r.at(concurrency)]
            if found:
                sys.stdout.write("\n".join(_table(found, study.found, concurrency, graphs)) + "\n\n")
    if args.plot:
        check(args.plot)
        _draw(study.found, args.plot)


def step_ms(result: Result, concurrency: int) -> float | None:
    """Returns the milliseconds of a step, from one verification to the next."""
    row = result.at(concurrency) or {}
    stream, accepted = row.get("stream_tok_s"), row.get("accept_length")
    if not stream:
        return None
    return 1000.0 * float(accepted or 1.0) / float(stream) if accepted or result.cell.algorithm == _PLAIN else None


def against(result: Result, other: Result, concurrency: int) -> tuple[float, float] | None:
    """Returns the ratios of tokens a second and of accept lengths; the first is the median over the rounds, each of
    which asked both the same."""
    mine, theirs = result.at(concurrency), other.at(concurrency)
    if not mine or not theirs or not theirs.get("accept_length"):
        return None
    paired = [a / b for a, b in zip(mine["tok_s_runs"], theirs["tok_s_runs"], strict=False) if a and b]
    return median(paired), mine["accept_length"] / theirs["accept_length"]


def _table(found: list[Result], every: list[Result], concurrency: int, graphs: bool) -> list[str]:
    chain = next((r for r in found if r.cell.algorithm == _CHAIN), None)
    lines = [
        f"Graphs {'on' if graphs else 'off'}, {concurrency} at a time:",
        "",
        "| | accepted | tok/s, median | spread | rounds | ms a step | tok/s and accepted to the chain's | miss |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in sorted(found, key=lambda r: (r.cell.algorithm == _TREE, r.cell.budget)):
        row: dict[str, Any] = result.at(concurrency) or {}
        runs, step = row["tok_s_runs"], step_ms(result, concurrency)
        ratio = against(result, chain, concurrency) if chain and result.cell.algorithm == _TREE else None
        made = projection(result, every, concurrency, None)
        name = {_PLAIN: "plain", _CHAIN: "chain of 7"}.get(result.cell.algorithm, f"tree of {result.cell.budget}")
        cells = [
            name, _number(row.get("accept_length"), 2), f"{row['tok_s']:.0f}", f"{min(runs):.0f} to {max(runs):.0f}",
            str(len(runs)), _number(step, 2), f"{ratio[0]:.2f} and {ratio[1]:.2f}" if ratio else "",
            f"{made.miss:+.0%}" if made and made.miss is not None else "",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _draw(found: list[Result], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "ddops", "svg.fonttype": "none", "font.size": 10}):
        figure, panels = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
        for panel, title, value in (
            (panels[0], "tokens accepted a step", lambda r: (r.at(1) or {}).get("accept_length")),
            (panels[1], "tokens a second, one stream at a time", lambda r: (r.at(1) or {}).get("tok_s")),
            (panels[2], "milliseconds a step", lambda r: step_ms(r, 1)),
        ):
            _panel(panel, title, [r for r in found if r.cell.graphs], value)
        runs = [(r.cell.budget, (r.at(1) or {})["tok_s_runs"]) for r in found if r.cell.graphs and _tree(r)]
        for budget, values in runs:
            panels[1].plot([budget, budget], [min(values), max(values)], color=_BLUE, alpha=0.5, linewidth=1.5)
        for panel in panels:
            panel.set_ylim(bottom=0)
        panels[1].legend(loc="lower right", frameon=False, fontsize=9)
        pyplot.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)


def _tree(result: Result) -> bool:
    return result.cell.algorithm == _TREE


def _panel(panel: Any, title: str, found: list[Result], value: Any) -> None:
    trees = sorted((r for r in found if _tree(r)), key=lambda r: r.cell.budget)
    panel.plot([r.cell.budget for r in trees], [value(r) for r in trees], "o-", color=_BLUE, label="tree, by budget")
    for name, colour, label in ((_CHAIN, _ORANGE, "chain of 7"), (_PLAIN, _GREY, "plain")):
        told = [v for r in found if r.cell.algorithm == name and (v := value(r)) is not None]
        if told:
            panel.axhline(told[0], color=colour, linestyle="--", label=label)
    panel.set_title(title, fontsize=10)
    panel.set_xlabel("budget")
    panel.set_xticks([r.cell.budget for r in trees])
    panel.grid(alpha=0.25)


if __name__ == "__main__":
    main()
