"""``ddops faults``: the command, and the pages that it shares its words with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ddops import fault_pages
from ddops.agent.faults import RULES
from ddops.fault_classes import CLASSES, KINDS

DOCS = Path(__file__).parents[3] / "docs" / "faults"
IMA = "CUDA error: an illegal memory access was encountered"


def faults(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ddops", "faults", *args]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def test_an_incident_is_one_object_on_one_line() -> None:
    healthy = "Decode batch, #running-req: 1, #token: 9, cuda graph: True, #queue-req: 0\n"
    done = faults("classify", "-", "--plain", "--json", stdin=f"{healthy}RuntimeError: {IMA}\n{IMA}\n")
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert (found["class"], found["action"], found["rule"]) == (
        "cuda_illegal_memory_access",
        "rollback",
        "illegal-memory-access",
    )
    assert found["first"]["line"] == f"RuntimeError: {IMA}"
    assert found["lines"] == [f"RuntimeError: {IMA}", IMA]
    assert found["count"] == 2
    assert found["why"]


def test_a_healthy_journal_gives_nothing(tmp_path: Path) -> None:
    file = tmp_path / "journal.json"
    file.write_text(json.dumps({"MESSAGE": "The server is fired up and ready to roll!", "PRIORITY": "6"}) + "\n")
    done = faults("classify", str(file), "--json")
    assert (done.returncode, done.stdout) == (0, "")


def test_unit_invocation_and_phase_choose() -> None:
    def entry(unit: str, invocation: str) -> str:
        return json.dumps({"MESSAGE": IMA, "_SYSTEMD_UNIT": unit, "_SYSTEMD_INVOCATION_ID": invocation}) + "\n"

    journal = entry("sglang.service", "a") + entry("train.service", "b")
    assert json.loads(faults("classify", "--json", "--unit", "sglang", stdin=journal).stdout)["invocation"] == "a"
    assert faults("classify", "--json", "--unit", "sglang", "--invocation", "c", stdin=journal).stdout == ""
    promoted = faults("classify", "--json", "--unit", "sglang", "--phase", "promoted", stdin=journal)
    assert json.loads(promoted.stdout)["action"] == "restart"


def test_mistakes_have_their_words() -> None:
    for args, says in (
        (("classify", "/no/such/file"), "cannot read /no/such/file"),
        (("classify", "-", "--phase", "later"), "known are: trial, promoted, starting, stopping"),
        (("explain", "xid_79"), "did you mean 'xid-79'?"),
        (("explain", "nan_logit"), "did you mean 'nan_logits'?"),
        (("classify", "/dev/null"), "an empty journal proves nothing"),
    ):
        done = faults(*args)
        assert done.returncode == 2
        assert says in done.stderr
        assert "Traceback" not in done.stderr


def test_the_table_is_listed_explained_and_tested() -> None:
    listed = {rule["rule"] for rule in json.loads(faults("list", "--json").stdout)}
    assert listed == set(RULES)
    assert faults("explain", "xid-79").stdout == fault_pages.page("gpu_fallen_off_bus")
    done = faults("test", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"rules": len(RULES), "problems": []}


def test_the_committed_pages_are_those_of_the_table() -> None:
    made = fault_pages.pages()
    assert {path.name for path in DOCS.glob("*.md")} == set(made)
    for name, text in made.items():
        assert (DOCS / name).read_text() == text, f"make them anew: python -m ddops.fault_pages docs/faults ({name})"


def test_every_class_has_a_page_and_every_page_its_rules() -> None:
    assert {rule.fault for rule in RULES.values()} == set(CLASSES)
    assert {fault.kind for fault in CLASSES.values()} == set(KINDS)
    for rule in RULES.values():
        assert f'<a name="{rule.name}">' in fault_pages.page(rule.fault)
