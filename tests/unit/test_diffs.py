"""The site's own patches: applied exactly, or not at all."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from ddops import deploy, diffs, overlay, profile, render
from ddops import site as sites
from ddops.agent import patched_tree
from ddops.agent.errors import Refused
from ddops.agent.unified_diff import DiffError, FileDiff, apply, apply_all, parse
from ddops.errors import UsageError
from ddops.settings import Asked
from ddops.site import OverlayEntry, Site

EXAMPLE = Path(__file__).parents[2] / "docs/diffs/sglang-0.5.12.post1"
NAME = "sglang/srt/a.py"


def diff_u(folder: Path, old: bytes, new: bytes, context: int = 3) -> bytes:
    """Returns what diff itself writes of two texts."""
    (folder / "old").write_bytes(old)
    (folder / "new").write_bytes(new)
    labels = ["--label", f"a/python/{NAME}", "--label", f"b/python/{NAME}"]
    return subprocess.run(
        ["diff", f"-U{context}", *labels, "old", "new"], cwd=folder, capture_output=True, check=False
    ).stdout


def one(text: bytes) -> FileDiff:
    [part] = parse(text)
    return part


def test_what_diff_writes_is_applied_to_the_byte(tmp_path: Path) -> None:
    chosen = random.Random(7)  # noqa: S311 - no secret
    alphabet = [
        b"a\n",
        b"b\n",
        b"\n",
        b"--- c\n",
        b"+++ d\n",
        b"@@ -1 +1 @@\n",
        b"\xff\r\n",
        b"\\ x\n",
        b"\x0c\n",
        b"a\rb\n",
    ]
    done = 0
    for _ in range(150):
        lines = chosen.choices(alphabet, k=chosen.randrange(1, 40))
        changed = [line for line in lines if chosen.random() > 0.2]
        for _ in range(chosen.randrange(0, 4)):
            changed.insert(chosen.randrange(0, len(changed) + 1), chosen.choice(alphabet))
        old, new = (b"".join(side) + chosen.choice([b"", b"no newline"]) for side in (lines, changed))
        if old == new or not old or not new:
            continue
        part = one(diff_u(tmp_path, old, new, context=chosen.choice([0, 3])))
        assert (part.path, apply(part, old)) == (NAME, new)
        done += 1
    assert done > 100


OLD = b"".join(b"line %d\n" % n for n in range(1, 30))
NEW = OLD.replace(b"line 10\n", b"line ten\n")


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (b"new first line\n" + OLD, "a.py:7 is not what the diff expects"),  # patch would shift it
        (OLD.replace(b"line 12\n", b"line twelve\n"), "a.py:12 is not"),  # patch would take it with fuzz
        (OLD.replace(b"line 10\n", b"line 10 \n"), "a.py:10 is not"),
        (OLD.replace(b"\n", b"\r\n"), "a.py:7 is not"),
        (NEW, "a.py:10 is not"),
        (b"", "a.py:7 is not"),
        (None, "is not there"),
    ],
)
def test_another_text_is_refused_where_patch_would_go_on(found: bytes | None, says: str, tmp_path: Path) -> None:
    with pytest.raises(DiffError, match=says):
        apply(one(diff_u(tmp_path, OLD, NEW)), found)


def test_files_come_and_go_and_a_later_diff_stands_on_an_earlier_one(tmp_path: Path) -> None:
    third = NEW.replace(b"line 20\n", b"")
    made = b"--- /dev/null\n+++ b/sglang/new.py\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    gone = b"--- a/sglang/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    texts = {"1": diff_u(tmp_path, OLD, NEW), "2": diff_u(tmp_path, NEW, third), "3": made, "4": gone}
    here = {NAME: OLD, "sglang/old.py": b"x\n"}
    assert apply_all(texts, here.get) == {NAME: third, "sglang/new.py": b"one\ntwo\n", "sglang/old.py": None}
    with pytest.raises(DiffError, match=r"3: sglang/new\.py is there already"):
        apply_all(texts, {**here, "sglang/new.py": b""}.get)
    with pytest.raises(DiffError, match="would be removed with lines that the diff does not name"):
        apply_all(texts, {**here, "sglang/old.py": b"x\ny\n"}.get)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "it changes no file"),
        (b"hello\n", "it changes no file"),
        (b"--- a/sglang/a.py\n", "--- without"),
        (b"--- a/sglang/a.py\n+++ b/sglang/a.py\n", "no hunk"),
        (b"--- a/sglang/a.py\n+++ b/sglang/b.py\n@@ -1 +1 @@\n-a\n+b\n", "would become"),
        (b"--- a/sglang/a.py\n+++ b/sglang/a.py\n@@ -1,3 +1,3 @@\n-a\n+b\n", "not as many lines"),
        (b"--- a/../etc/x\n+++ b/../etc/x\n@@ -1 +1 @@\n-a\n+b\n", "no file of the package sglang"),
        (b"--- a/sglang/../../x\n+++ b/sglang/../../x\n@@ -1 +1 @@\n-a\n+b\n", "no file of the package sglang"),
        (b"--- a/torch/x.py\n+++ b/torch/x.py\n@@ -1 +1 @@\n-a\n+b\n", "no file of the package sglang"),
        (b"rename from sglang/a.py\nrename to sglang/b.py\n", "only changes of text"),
        (b"Binary files a/sglang/a.so and b/sglang/a.so differ\n", "only changes of text"),
        (b"@@ -1 +1 @@\n-a\n+b\n", "a hunk of no file"),
    ],
)
def test_what_is_no_diff_of_sglang_is_refused(text: bytes, says: str) -> None:
    with pytest.raises(DiffError, match=says):
        parse(text)


# ---- the copy


def environment(folder: Path) -> str:
    """Makes what looks like an environment with SGLang; returns its interpreter."""
    package = folder / "lib/python3.11/site-packages/sglang"
    (package / "srt/__pycache__").mkdir(parents=True)
    (package.parent / "sglang-0.5.12.post1.dist-info").mkdir()
    (package / "__init__.py").write_text("")
    (package / "srt/a.py").write_bytes(OLD)
    (package / "srt/other.py").write_text("1\n")
    (package / "srt/table.json").write_text("{}")
    for name in ("a", "other"):
        (package / f"srt/__pycache__/{name}.cpython-311.pyc").write_bytes(b"compiled")
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to("/usr/bin/python3")
    os.utime(package / "srt/other.py", (1000, 1000))
    return str(folder / "bin/python")


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def spec(**more: Any) -> dict[str, Any]:
    return {"sglang": "0.5.12.post1", "files": {NAME: {"before": sha256(OLD), "after": sha256(NEW)}}, **more}


def staged(folder: Path, text: bytes) -> Path:
    (folder / "release/diffs").mkdir(parents=True)
    (folder / "release/diffs/one.diff").write_bytes(text)
    return folder / "release"


def test_the_copy_is_sglang_with_the_diffs_and_the_installed_one_stays(tmp_path: Path) -> None:
    python, release = environment(tmp_path / "env"), staged(tmp_path, diff_u(tmp_path, OLD, NEW))
    patched_tree.build(release, python, spec(), ["diffs/one.diff"])
    tree = release / "tree/sglang/srt"
    assert (tree / "a.py").read_bytes() == NEW
    assert (tree / "table.json").read_text() == "{}"
    assert (tree / "other.py").stat().st_mtime == 1000, "what Python has compiled of it stays right"
    assert [path.name for path in (tree / "__pycache__").iterdir()] == ["other.cpython-311.pyc"]
    assert {path.stat().st_mode & 0o777 for path in tree.rglob("*") if path.is_file()} == {0o644}
    installed = tmp_path / "env/lib/python3.11/site-packages/sglang/srt/a.py"
    assert installed.read_bytes() == OLD

    assert patched_tree.problems(release, spec()) == []
    (tree / "other.py").write_text("2\n")
    (tree / "table.json").unlink()
    (tree / "more.py").write_text("")
    wrong = [f"{tree}/{name} is not as it was stored" for name in ("more.py", "other.py", "table.json")]
    assert patched_tree.problems(release, spec()) == wrong
    (release / "tree.json").unlink()
    assert patched_tree.problems(release, spec())


def test_what_is_not_as_pinned_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    python, release = environment(tmp_path / "env"), staged(tmp_path, diff_u(tmp_path, OLD, NEW))

    def refusal(of: dict[str, Any]) -> str:
        with pytest.raises(Refused) as caught:
            patched_tree.build(release, python, of, ["diffs/one.diff"])
        assert not (release / "tree").exists()
        return caught.value.what

    assert refusal(spec(sglang="0.5.16")) == "SGLang 0.5.12.post1 is on the host, the diffs are for 0.5.16"
    pin = {"before": sha256(OLD), "after": sha256(OLD)}
    assert refusal(spec(files={NAME: pin})) == f"{NAME} does not become what was pinned"
    more = {**spec()["files"], "sglang/srt/other.py": {"before": sha256(b"1\n"), "after": sha256(b"2\n")}}
    assert refusal(spec(files=more)) == "the diffs do not touch the files that are pinned"
    package = tmp_path / "env/lib/python3.11/site-packages/sglang"
    (package / "srt/a.py").write_bytes(OLD + b"edited\n")
    assert refusal(spec()) == f"{NAME} is not the file that the diffs were made for"
    (package.parent / "__editable___sglang_finder.py").write_text("")
    assert refusal(spec()).startswith("SGLang is installed editable")


# ---- the site's side


def folder_of(tmp_path: Path, pins: dict[str, Any] | None, text: bytes = b"") -> Path:
    folder = tmp_path / "patches"
    folder.mkdir()
    (folder / "one.diff").write_bytes(text or diff_u(tmp_path, OLD, NEW))
    if pins is not None:
        (folder / "pins.yaml").write_text(yaml.safe_dump(pins))
    return folder


def test_a_folder_without_its_pins_or_with_those_of_others_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no diffs in"):
        diffs.load(tmp_path)
    folder = folder_of(tmp_path, None)
    with pytest.raises(UsageError, match=r"pins\.yaml is not there") as caught:
        diffs.load(folder)
    assert caught.value.hint.startswith(f"ddops overlay pin {folder}")
    other = {"sglang": "0.5.16", "files": {"sglang/b.py": {"before": None, "after": sha256(b"")}}}
    (folder / "pins.yaml").write_text(yaml.safe_dump(other))
    with pytest.raises(UsageError, match=f"one of them alone has: sglang/b.py, {NAME}"):
        diffs.load(folder)
    (folder / "pins.yaml").write_text(yaml.safe_dump({**spec(), "files": {NAME: {"before": "x", "after": None}}}))
    with pytest.raises(UsageError, match=r"pins\.yaml:4: files\.sglang/srt/a\.py\.before"):
        diffs.load(folder)
    (folder / "one.diff").write_text("hello\n")
    with pytest.raises(UsageError, match=r"diffs/one\.diff is no diff that can be applied"):
        diffs.load(folder)


def test_a_folder_of_diffs_is_looked_for_from_the_site_file_and_not_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path, spec())
    (tmp_path / "conf").mkdir()
    (tmp_path / "else/where").mkdir(parents=True)
    site = {"hosts": {"a": {"address": "a"}, "b": {"address": "b", "overlay": {"diffs": str(folder)}},
                      "c": {"address": "c", "overlay": {"diffs": f"../conf/../{folder.name}"}}},
            "engine": {"python": "/p"}, "model": "/m", "overlay": {"diffs": f"../{folder.name}"}}  # fmt: skip
    (tmp_path / "conf/site.yaml").write_text(yaml.safe_dump(site))
    monkeypatch.chdir(tmp_path / "else/where")
    for flag in (tmp_path / "conf/site.yaml", Path("../../conf/site.yaml")):
        found = sites.load(flag)
        for entry in found.hosts.values():
            there = diffs.of(found.at(entry))
            assert there, entry
            assert there.pins.sglang == spec()["sglang"]


def rendered(of: profile.Profile, entry: OverlayEntry) -> render.Rendered:
    site = Site.model_validate({"hosts": {"h": {"address": "h"}}, "engine": {"python": "/p"}, "model": "/m",
                                "overlay": entry.model_dump()})  # fmt: skip
    options, _ = deploy.options_of(of, site, deploy.Request(asked=Asked(budget=12)))
    return render.release(of, site, "svc", options, 3)


def test_a_release_carries_diffs_and_pins_and_its_copy_comes_before_the_installed_one(tmp_path: Path) -> None:
    gpu = profile.load("b300")
    old_stack = gpu.model_copy(update={"sglang": "0.5.12.post1"})
    folder = folder_of(tmp_path, spec())
    text = (folder / "one.diff").read_bytes()

    def python_path(made: render.Rendered) -> list[str]:
        lines = made.files["environment"].decode().splitlines()
        return [line.partition("=")[2].strip('"') for line in lines if line.startswith("PYTHONPATH=")]

    plain = rendered(gpu, OverlayEntry())
    assert plain.as_manifest()["overlay"] == overlay.sha256()
    assert "tree" not in plain.as_manifest()
    both = rendered(old_stack, OverlayEntry(diffs=str(folder)))
    manifest = both.as_manifest()
    assert manifest["tree"] == {**spec(), "diffs": {"diffs/one.diff": sha256(text)}}
    assert manifest["files"]["diffs/one.diff"] == sha256(text)
    root = "/var/lib/ddops/svc/releases/0003"
    assert python_path(both) == [f"{root}/overlay:{root}/tree"]
    assert manifest["overlay"] not in (overlay.sha256(), plain.as_manifest()["overlay"])
    alone = rendered(old_stack, OverlayEntry(diffs=str(folder), plugin=False))
    assert python_path(alone) == [f"{root}/tree"]
    assert not any(name.startswith("overlay/") for name in alone.files)
    assert b"SGLANG_PLUGINS" not in alone.files["environment"]
    expect = alone.as_manifest()["expect"]
    assert (expect["overlay"], expect["overlay_ranks"]) == (None, 0)
    assert len({made.fingerprint for made in (plain, both, alone)}) == 3
    with pytest.raises(UsageError, match=r"the diffs are for SGLang 0\.5\.12\.post1, profile b300 for 0\.5\.16"):
        rendered(gpu, OverlayEntry(diffs=str(folder)))
    with pytest.raises(UsageError, match="profile lab needs the plug-in"):
        rendered(profile.load("lab"), OverlayEntry(plugin=False))


# ---- the example


class Recorder:
    """Stands for a runner's buffers: notes which of them are written, and how."""

    out_cache_loc_swa = mamba_track_indices = mamba_track_mask = None

    def __init__(self) -> None:
        self.written: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return type("Buffer", (), {
            "zero_": lambda _: self.written.update({name: "zero"}),
            "fill_": lambda _, value: self.written.update({name: f"fill {value}"}),
        })()  # fmt: skip


def after(hunk_lines: list[bytes], captured: int, real: int) -> dict[str, str]:
    """Runs the lines of one side of the example's hunk as the beginning of a replay."""
    text = textwrap.dedent(b"".join(hunk_lines).decode())
    recorder = Recorder()
    exec(compile(text, "hunk", "exec"), {"self": recorder, "bs": captured, "raw_bs": real, "seq_len_fill_value": 1})  # noqa: S102
    return recorder.written


def test_the_example_zeroes_the_positions_of_padding_rows() -> None:
    found = diffs.load(EXAMPLE)
    assert found.pins.sglang == "0.5.12.post1"
    [text] = found.texts.values()
    [hunk] = one(text).hunks
    assert after(hunk.old, captured=4, real=3) == {"seq_lens": "fill 1", "out_cache_loc": "zero"}
    assert after(hunk.new, captured=4, real=3) == {"seq_lens": "fill 1", "out_cache_loc": "zero", "positions": "zero"}
    assert after(hunk.new, captured=3, real=3) == {}, "a full batch pays nothing"
