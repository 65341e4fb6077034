"""What a study looks like: the table, the plot of characters, CSV, JSON, the picture."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ddops.cli import swept
from ddops.cli.output import OutputLost
from ddops.errors import Refused, UsageError
from ddops.sweep import chart, picture, rows
from ddops.sweep.result import Result
from ddops.sweep.running import DOWN, Ended

from .made import bad, cell, good, head, written

# the field's figures, and some of our own invention beside them
FIELD = (
    good(cell(8), 285.0, 4.48, c4=900.0),
    good(cell(4), 231.0, 3.6, c4=770.0),
    good(cell(8, graphs=False), 95.0, 4.5, c4=300.0),
    good(cell(16, graphs=False), 111.0, 5.8, c4=290.0),
    bad(cell(12)),
    Result(cell(16), "skipped", "budget 12 failed already", "fault in the engine: illegal-memory-access"),
    Result(cell(24), "unknown", "no space left on the device, and much more that is said of it", "why"),
    Result(cell(32), "known-bad", "DDTREE, garbage with every health check green, coding 0/5"),
    Result(cell(12, max_running=100), "impossible", "max running 100 is too much for budget 12", "1300 verify tokens"),
)

TABLE = """\
budget graphs running algorithm at once    tok/s spread accept projected   miss
     8 off         64 DDTREE          1     95.0     2%   4.50      base
                                      4    300.0     2%   4.50      base
    16 off         64 DDTREE          1    111.0     2%   5.80     122.4    -9%
                                      4    290.0     2%   5.80     386.7   -25%
     4 on          64 DDTREE          1    231.0     2%   3.60     229.0    +1%
                                      4    770.0     2%   3.60     723.2    +6%
     8 on          64 DDTREE          1    285.0     2%   4.48      base
                                      4    900.0     2%   4.48      base
    12 on          64 DDTREE    FAILED illegal-memory-access in load
    16 on          64 DDTREE    skipped: budget 12 failed already
    24 on          64 DDTREE    could not be told: no space left on the device,
    32 on          64 DDTREE    not tried, proven bad here: DDTREE, garbage
    12 on         100 DDTREE    cannot be: max running 100 is too much
"""

CHART = """\
tok/s at 1 (| projected): graphs off, DDTREE, max running 64
     8  #########                           95.0, accept 4.50
    16  ########## |                        111.0, accept 5.80
tok/s at 1 (| projected): graphs on, DDTREE, max running 64
     4  #####################|              231.0, accept 3.60
     8  ##########################          285.0, accept 4.48
    12                                      FAILED: illegal-memory-access
    16                                    | skipped
    24                                      could not be told
    32                                      proven bad here
"""


def test_the_table_fits_80_columns_and_says_why_a_cell_has_no_figures(tmp_path: Path) -> None:
    with written(tmp_path / "s", *FIELD, concurrency=(1, 4)) as of:
        found = swept.table(of)
    assert max(map(len, found)) <= 80
    for line, wanted in zip(found, TABLE.splitlines(), strict=True):
        assert line.startswith(wanted), "only what does not fit is cut off"


def test_a_plot_of_characters_is_plain_and_shows_projections_and_failures(tmp_path: Path) -> None:
    with written(tmp_path / "s", *FIELD, concurrency=(1, 4)) as of:
        found = chart.chart(of, 1)
    assert found == CHART.splitlines()
    assert "\n".join(found).isascii()
    assert max(map(len, found)) <= 80
    with written(tmp_path / "t", bad(cell(12))) as of:
        assert chart.chart(of, 1) == []


def test_a_failure_is_shown_with_the_line_that_proves_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with written(tmp_path / "s", *FIELD, concurrency=(1, 4), why="2 failed, --max-failures 2") as of:
        swept.show(of)
    out = capsys.readouterr().out
    assert "budget 12, graphs on, DDTREE, max running 64: FAILED in load, operation 5\n" in out
    assert "    torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n" in out
    assert "ceiling: budget 8 passes, 12 fails (graphs on, DDTREE, max running 64)\n" in out
    assert "ceiling: budget 16 passes, nothing larger was seen to fail (graphs off, DDTREE, max running 64)\n" in out
    assert out.endswith("not finished: 2 failed, --max-failures 2\n")
    assert "\033" not in out
    assert "drill:" not in out


def test_a_ceiling_of_a_drill_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = head(cell(8), cell(12))["question"] | {"drill": {"name": "garbage", "above": 8, "after_steps": 0}}
    with written(tmp_path / "s", good(cell(8), 285.0, 4.48), bad(cell(12)), question=question) as of:
        swept.show(of)
    assert "drill: garbage was planted above budget 8, a ceiling there is its own\n" in capsys.readouterr().out


def test_the_csv_has_a_row_for_each_cell_and_concurrency(tmp_path: Path) -> None:
    with written(tmp_path / "s", *FIELD, concurrency=(1, 4)) as of:
        rows.write_csv(of, tmp_path / "s.csv")
    with open(tmp_path / "s.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == len(FIELD) * 2
    assert tuple(found[0]) == rows.COLUMNS
    row = next(r for r in found if (r["budget"], r["graphs"], r["concurrency"]) == ("16", "False", "4"))
    assert (row["tok_s"], row["accept_length"], row["verify_width"]) == ("290.0", "5.8", "17")
    assert (row["tok_s_min"], row["tok_s_max"]) == ("287.1", "292.9")
    assert (row["projected_tok_s"], row["miss"], row["base_budget"]) == ("386.67", "-0.25", "8")
    failed = next(r for r in found if r["status"] == "bad")
    assert (failed["rule"], failed["step"], failed["tok_s"]) == ("illegal-memory-access", "load", "")


def test_json_has_a_line_for_each_cell_and_the_result(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with written(path, *FIELD, concurrency=(1, 4)):
        pass
    done = subprocess.run(
        [sys.executable, "-m", "ddops", "study", str(path), "--json"], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["event"] for line in lines] == ["cell"] * len(FIELD) + ["result"]
    failed = next(line for line in lines if line.get("status") == "bad")
    assert failed["lines"][0] == "Capture cuda graph begin"
    assert failed["faults"][0]["rule"] == "illegal-memory-access"
    control = next(x for x in lines if x.get("cell") == cell(16, graphs=False).as_json())
    assert control["projections"][0] == {
        "concurrency": 1, "base_budget": 8, "accept_length": 5.8, "projected_tok_s": 122.44, "miss": -0.0935
    }  # fmt: skip
    assert lines[-1]["cells"] == {
        "good": 4, "bad": 1, "skipped": 1, "unknown": 1, "known-bad": 1, "impossible": 1
    }  # fmt: skip
    assert (lines[-1]["finished"], lines[-1]["exit_code"]) == (True, 0)
    assert [(c["graphs"], c["ceiling"], c["fails_at"]) for c in lines[-1]["ceilings"]][:1] == [(True, 8, 12)]


def test_the_picture_is_one_and_says_what_failed(tmp_path: Path) -> None:
    with written(tmp_path / "s", *FIELD, concurrency=(1, 4)) as of:
        for name in ("s.svg", "s.png", "again.svg"):
            picture.write(of, tmp_path / name)
    root = ElementTree.parse(tmp_path / "s.svg").getroot()  # noqa: S314 - our own file
    said = " ".join(" ".join(root.itertext()).split())
    for text in (
        "tokens a second, 1 at a time",
        "tokens a second, 4 at a time",
        "graphs on",
        "graphs off",
        "illegal-memory-access",
        "known-good: budget 8",
        "skipped",
    ):
        assert text in said, text
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "s.svg").read_bytes() == (tmp_path / "again.svg").read_bytes(), "a study has one picture"


def test_what_has_but_one_budget_is_a_level_beside_the_trees(tmp_path: Path) -> None:
    """Plain decoding and a chain: a line across, named with its budget, and no ceiling of theirs is told."""
    plain = good(cell(1, algorithm="PLAIN"), 200.0, 1.0, c4=700.0)

    def said(*found: Result) -> str:
        with written(tmp_path / "s", *found, concurrency=(1, 4)) as of:
            picture.write(of, tmp_path / "s.svg")
        root = ElementTree.parse(tmp_path / "s.svg").getroot()  # noqa: S314 - our own file
        (tmp_path / "s").unlink()
        return " ".join(" ".join(root.itertext()).split())

    beside = said(plain, *FIELD)
    assert "graphs on, PLAIN, budget 1" in beside
    assert "(graphs on, PLAIN" not in beside, "its ceiling"
    assert "budget 1 passes" in said(plain), "alone it is a curve like any other"


def test_a_picture_without_matplotlib_says_how_to_get_it(tmp_path: Path) -> None:
    with written(tmp_path / "s", *FIELD):
        pass
    (tmp_path / "matplotlib.py").write_text("raise ImportError\n")

    def study(*args: str) -> subprocess.CompletedProcess[str]:
        environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        argv = [sys.executable, "-m", "ddops", "study", str(tmp_path / "s"), *args]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)

    done = study("--plot", str(tmp_path / "s.svg"))
    assert done.returncode == 5
    assert "hint: pip install 'ddops[plot]'" in done.stderr
    assert study("--plot", str(tmp_path / "s.jpg")).returncode == 2
    assert study("--csv", str(tmp_path / "s.csv")).returncode == 0


def test_a_lost_output_keeps_the_exit_code_that_is_true_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: str) -> None:
        raise OutputLost(OSError(28, "No space left on device"))

    monkeypatch.setattr(swept, "data", full)
    with written(tmp_path / "s", *FIELD, why="") as of:
        for ended, code in ((DOWN, 4), (Ended("done"), 1)):
            with pytest.raises(OutputLost) as error:
                swept.tell(of, ended, None, None, as_json=True)
            assert error.value.exit_code == code


def test_what_cannot_be_written_hides_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with written(tmp_path / "s", *FIELD, why="") as of:
        with pytest.raises(UsageError, match="cannot write") as error:
            swept.tell(of, DOWN, tmp_path / "no folder/s.csv", None, as_json=False)
        assert error.value.exit_code == 4
        assert "stopped: the service is down" in capsys.readouterr().err
        earlier = OutputLost(OSError(28, "No space left on device"))
        for ended, code in ((DOWN, 4), (Ended("done"), 1)):
            with pytest.raises(OutputLost) as lost:
                swept.tell(of, ended, None, None, earlier, as_json=False)
            assert lost.value.exit_code == code
            earlier.exit_code = OutputLost.exit_code


def test_a_study_without_a_cell_is_not_drawn(tmp_path: Path) -> None:
    with written(tmp_path / "s") as of, pytest.raises(Refused, match="was not drawn"):
        picture.write(of, tmp_path / "s.svg")


def test_studies_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "ddops/studies"
    with written(folder / "a.jsonl", *FIELD[:2]):
        pass
    environment = {"XDG_DATA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "ddops", "study"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert f"finished    kimi on gpu-1, b300, budgets 4 to 8, 2 known  {folder / 'a.jsonl'}" in done.stdout
    as_json = subprocess.run([*argv, "--json"], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(as_json.stdout)["study"] == str(folder / "a.jsonl")
