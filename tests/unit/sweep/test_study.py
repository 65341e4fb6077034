"""The study's file: what a crash leaves is read, and nobody goes on with a study of something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddops.errors import DdopsError, Locked, Refused, UsageError
from ddops.sweep import study

from .made import bad, cell, good, head, written

HEAD = head(cell(8), cell(12))


def test_what_was_written_is_read_back_line_by_line(tmp_path: Path) -> None:
    results = [good(cell(8), 285.0, 4.48), bad(cell(12))]
    with written(tmp_path / "new/s.jsonl", *results) as of:
        assert of.found == results
    found = study.read(tmp_path / "new/s.jsonl")
    assert (found.found, found.stopped, found.complete, found.open) == (results, "done", True, None)
    events = [json.loads(line)["event"] for line in (tmp_path / "new/s.jsonl").read_text().splitlines()]
    assert events == ["study", "ended", "ended", "stopped"]


def test_a_torn_line_is_left_out_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with written(path, good(cell(8), 285.0, 4.48), why=""):
        pass
    path.write_bytes(path.read_bytes() + b'{"event": "ended", "result": {"cell"')
    with study.writing(path, study.read(path).head) as of:
        assert list(of.results) == [cell(8)]
        of.write("ended", result=bad(cell(12)).as_json())
    assert list(study.read(path).results) == [cell(8), cell(12)]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"host": "gpu-2"}, "another host"),
        ({"service": "other"}, "another service"),
        ({"profile_sha256": "q"}, "another profile sha256"),
        ({"stack": {"sglang": "0.5.17", "environment": "e", "model": "m"}}, "another stack"),
        ({"overlay": "p"}, "another overlay"),
        ({"question": head(cell(8))["question"]}, "another question"),
    ],
)
def test_a_study_of_something_else_is_refused(change: dict[str, Any], what: str, tmp_path: Path) -> None:
    with study.writing(tmp_path / "s", HEAD):
        pass
    before = (tmp_path / "s").read_bytes()
    with pytest.raises(Refused, match=what) as error, study.writing(tmp_path / "s", {**HEAD, **change}):
        pass
    assert "--study with another file" in error.value.hint
    if "stack" in change:
        assert '{"sglang": "0.5.16"}, this is {"sglang": "0.5.17"}' in error.value.why
    assert (tmp_path / "s").read_bytes() == before


def test_another_known_good_is_no_other_study(tmp_path: Path) -> None:
    with study.writing(tmp_path / "s", HEAD):
        pass
    with study.writing(tmp_path / "s", {**HEAD, "known_good": {"release": 9}, "by": "c@d"}) as of:
        assert of.head["known_good"] == {"release": 1}


def test_only_one_client_writes_a_study(tmp_path: Path) -> None:
    with study.writing(tmp_path / "s", HEAD):
        with pytest.raises(Locked), study.writing(tmp_path / "s", HEAD):
            pass
        assert study.read(tmp_path / "s").found == [], "and everybody reads it"


@pytest.mark.parametrize(
    "text", ["", "{}\n", '{"event": "ended"}\n', "no json\n", '{"event": "study", "version": 2}\n']
)
def test_a_file_that_is_no_study_is_said_and_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text(text or "\n")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is no study"):
        study.read(path)
    with pytest.raises(UsageError, match="is no study"), study.writing(path, HEAD):
        pass
    assert path.read_bytes() == before


def test_a_folder_and_a_missing_file_are_no_tracebacks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        study.read(tmp_path / "none")
    with pytest.raises(UsageError, match="cannot write"), study.writing(tmp_path, HEAD):
        pass


def test_a_full_disk_is_said_with_the_way_on() -> None:
    with pytest.raises(DdopsError, match="No space left") as error, study.writing(Path("/dev/full"), HEAD):
        pass
    assert error.value.exit_code == 1
    assert "the same command goes on" in error.value.hint


def test_a_cell_that_nobody_saw_end_stays_open(tmp_path: Path) -> None:
    with study.writing(tmp_path / "s", HEAD) as of:
        of.write("begun", cell=cell(8).as_json(), release=3, fingerprint="f", attempt=1)
        of.write("filed", operation=17)
    left = study.read(tmp_path / "s").open
    assert left is not None
    assert (left["release"], left["operation"], left["cell"]) == (3, 17, cell(8).as_json())


def test_the_same_command_finds_its_unfinished_study_and_no_finished_one(tmp_path: Path) -> None:
    new = study.place(tmp_path, HEAD, fresh=False)
    assert new.parent == tmp_path
    assert new.name.startswith("gpu-1-kimi-")
    with study.writing(new, HEAD) as of:
        of.write("ended", result=good(cell(8), 1.0, 1.0).as_json())
    assert study.place(tmp_path, HEAD, fresh=False) == new
    assert study.place(tmp_path, HEAD, fresh=True) != new
    assert study.place(tmp_path, {**HEAD, "host": "gpu-2"}, fresh=False) != new
    with study.writing(new, HEAD) as of:
        of.write("stopped", why="done", code=0)
    assert study.place(tmp_path, HEAD, fresh=False) != new
    (tmp_path / "not-one.jsonl").write_text("nothing\n")
    assert [one.path for one in study.listed(tmp_path)] == [new]


def test_studies_are_kept_where_data_of_users_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert study.folder() == tmp_path / "ddops/studies"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/a")
    assert study.folder() == Path("/home/a/.local/share/ddops/studies")
