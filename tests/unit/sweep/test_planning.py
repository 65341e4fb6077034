"""A sweep as it is planned and carried out against a stand-in for the host's agent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddops import evidence
from ddops import profile as profiles
from ddops.cli import sweeping
from ddops.errors import Interrupted, Refused, Unreachable, UsageError
from ddops.site import EngineEntry, HostEntry, Site
from ddops.sweep import conducting, planning, study, trying
from ddops.sweep.cells import Cell
from ddops.sweep.planning import SweepPlan
from ddops.sweep.prediction import predict
from ddops.sweep.stopping import Limits
from ddops.sweep.trying import Drill, Measure, Setup

SITE = Site(hosts={"h": HostEntry(address="h")}, engine=EngineEntry(python="/p"), model="/m", drafter="/d")
B300 = profiles.load("b300")
STEPS = {"drain": 1.0, "stop": 20.0, "load": 600.0, "ready": 5.0, "smoke": 5.0, "lossless": 20.0, "acceptance": 10.0}
STEPS |= {"eval-coding": 90.0, "eval-garbage": 30.0, "eval-load": 60.0}
STEPS |= {"throughput": 6.0, "measure": 90.0, "end-trial": 2.0, "return": 610.0}


def ngram(budget: int, *, graphs: bool = True) -> Cell:
    return Cell(budget, graphs, "NGRAM", 64)


@pytest.fixture(autouse=True)
def _data_of_ones_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))


@dataclass
class Host:
    """Answers as the agent of a host whose known-good has budget 8; carries out what is filed by its script."""

    known_good: dict[str, Any] = field(
        default_factory=lambda: {
            "release": 1, "unit": "kimi-0001.service", "budget": 8, "graphs": True, "algorithm": "NGRAM",
            "max_running": 64,
        }
    )  # fmt: skip
    bad_budgets: tuple[int, ...] = ()
    script: list[Any] = field(default_factory=list)
    past: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    filed: list[dict[str, Any]] = field(default_factory=list)
    manifests: list[dict[str, Any]] = field(default_factory=list)
    steps: dict[str, float] = field(default_factory=lambda: dict(STEPS))
    service: str = "kimi"
    host: Any = field(default_factory=lambda: SimpleNamespace(name="gpu-1"))
    staged: int = 1

    def begin(self) -> None:
        """There is no connection to begin."""

    def until(self, _: str, call: str, **args: Any) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        filed = self.ask(call, **args)
        return {"event": "filed", **filed}, self.events("follow", operation=filed["operation"])

    def close(self) -> None:
        """Nothing is held open."""

    def ask(self, call: str, **args: Any) -> Any:
        import json

        self.asked.append(call)
        if call == "facts":
            budget = args["about"]["combination"]["budget"]
            bad = {"outcome": "bad", "release": 5, "algorithm": "NGRAM", "what": "it broke", "ended": "then"}
            bad |= {"subject": "deploy", "times": 1, "changed": []}
            return {
                "hostname": "gpu-1", "next_release": self.staged + 1, "live": self.known_good,
                "known_good": self.known_good, "live_runs": True, "measured_load": 600.0, "measured_steps": self.steps,
                "ledger_problem": "", "overlay_held": "", "records": False,
                "stack": {"sglang": "0.5.16", "environment": "e", "model": "m"}, "exposure": None,
                "evidence": [bad | {"other": []}] if budget in self.bad_budgets else [],
            }  # fmt: skip
        if call == "stage":
            self.manifests.append(json.loads(args["manifest"]))
            self.staged += 1
        if call == "file":
            self.filed.append(args["request"])
            return {"operation": 10 + len(self.filed)}
        if call == "ledger":
            whole = {"ended": "", "kind": "deploy"}
            entries = [{**whole, "id": str(n), "brief": brief} for n, brief in enumerate(self.past)]
            return {"id": None, "entries": entries, "problem": ""}
        return {"under_way": None} if call == "status" else {}

    def events(self, call: str, **args: Any) -> Iterator[dict[str, Any]]:
        self.asked.append(call)
        if call == "logs":
            yield {"event": "entry", "message": f"the last line of release {args['release']}"}
            return
        answer = self.script[0] if isinstance(self.script[0], Unreachable) else self.script.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        yield {"event": "result", "result": {"operation": args["operation"], **answer}}


def outcome(name: str, release: int, tok_s: float = 285.0, **more: Any) -> dict[str, Any]:
    row = {"concurrency": 1, "tok_s": tok_s, "tok_s_runs": [tok_s], "accept_length": 4.48, "failed": 0, "errors": []}
    return {
        "outcome": name, "seconds": 700.0, "release": {"release": release}, "host": {"active": "active"},
        "measured": [row] if name == "measured" else [], **more,
    }  # fmt: skip


FAILED: dict[str, Any] = {
    "reason": {"code": "engine-fault", "what": "fault in the engine: illegal-memory-access", "why": "w"},
    "steps": [{"step": "load", "ok": False}],
    "faults": [{"rule": "illegal-memory-access", "line": "an illegal memory access was encountered", "pid": 7}],
}


def setup(host: Host, drill: Drill | None = None, *, force: bool = False) -> Setup:
    measure = Measure((1,), 16, 128, 3)
    return Setup(
        B300, SITE, HostEntry(address="gpu-1", lab=True), lambda: host, measure, None, drill, force, patience_s=0  # type: ignore[arg-type, return-value]
    )  # fmt: skip


def planned(
    host: Host, *cells: Cell, drill: Drill | None = None, force: bool = False, bisects: bool = False
) -> SweepPlan:
    return planning.plan(setup(host, drill, force=force), "gpu-1", "kimi", cells, [], bisects=bisects)


def told(made: SweepPlan, within_s: float | None = None) -> str:
    lines: list[str] = []
    sweeping.show_plan(made, lines.append, within_s)
    return "\n".join(lines)


def conduct(made: SweepPlan, path: Path, **limits: Any) -> Any:
    return conducting.conduct(made, path, Limits(**limits), lambda _: None, fresh=False)


def test_the_plan_tells_order_evidence_drill_and_time_and_changes_nothing() -> None:
    host = Host(bad_budgets=(16,))
    cells = (ngram(16), ngram(12), ngram(8), ngram(4))
    made = planned(host, *cells, drill=Drill("garbage", 16))
    assert set(host.asked) == {"facts"}
    said = told(made).splitlines()
    for line in (
        "sweep: kimi on gpu-1, profile b300",
        "  way back  release 1 (kimi-0001.service, budget 8), after every cell",
        "  measure   at 1 at a time: 3 x 16 requests of 128 tokens",
        "  cells      1 budget 8, graphs on, NGRAM, max running 64: known-good's own, the base",
        "             2 budget 4, graphs on, NGRAM, max running 64",
        "             4 budget 16, graphs on, NGRAM, max running 64: proven bad here, not tried without --force",
        "  time      about 77 min for 3 cells, as last measured on this host; a cell:",
        "            drain 1.0 + stop 20.0 + load 600.0 + gates 226.0 + measure 90.0 + return 612.0 s",
    ):
        assert line in said, "\n".join(said)
    assert made.describe()["seconds"] == 3 * 1549
    assert "            2 of 3 cells end within the 77 min of --for" in told(made, 3 * 1549).splitlines()
    assert "            no cell ends within the 1 s of --for" in told(made, 1).splitlines()
    assert "            3 of 3 cells end within the 24.0 h of --for" in told(made, 24 * 3600).splitlines()
    assert [c["proven_bad"] is not None for c in made.describe()["cells"]] == [False, False, False, True]


def test_what_was_never_measured_makes_the_time_a_least_one() -> None:
    assert predict({"load": 600.0}, None, []).missing == ["drain", "stop", "gates", "measure"]
    known = {name: seconds for name, seconds in STEPS.items() if name not in ("measure", "return", "end-trial")}
    made = planned(Host(steps=known), ngram(8))
    assert "  time      at least 24 min for 1 cells" in told(made)
    assert "measure ? + return 600.0 s" in told(made), "to return takes a load"
    assert "at most 1 of 1 cells end within the 24.0 h of --for" in told(made, 24 * 3600)


def test_a_drill_is_above_known_goods_budget_unless_somebody_says_above_which() -> None:
    made = planned(Host(), ngram(8), ngram(12), drill=Drill("illegal-access", None))
    assert [c["drill"] for c in made.describe()["cells"]] == [None, "illegal-access"]
    adopted = Host(known_good={"release": 0, "unit": "sglang.service"})
    with pytest.raises(UsageError) as error:
        planned(adopted, ngram(8), drill=Drill("illegal-access", None))
    assert error.value.hint == "--drill-above N"


@pytest.mark.parametrize(("topk", "same"), [(8, True), (4, False)])
def test_known_good_is_the_base_where_its_topk_is_the_profiles(topk: int, same: bool) -> None:
    host = Host()
    host.known_good |= {"algorithm": "DDTREE", "topk": topk}
    plain = Cell(8, True, "DDTREE", 64)
    assert (planned(host, plain, Cell(7, True, "DDTREE", 64)).setup.base == plain) is same


def test_a_bisection_says_how_many_cells_it_takes_at_most() -> None:
    made = planned(Host(), *(ngram(b) for b in range(1, 65)), bisects=True)
    assert "  bisect    64 budgets from 1 to 64: 7 cells at most" in told(made).splitlines()


def test_a_host_where_nothing_can_be_deployed_is_refused_before_any_cell() -> None:
    host = Host()
    host.known_good = {}
    with pytest.raises(Refused, match="no way back"):
        planned(host, ngram(8))


def test_each_cell_is_a_deploy_that_measures_and_the_study_has_what_came_of_it(tmp_path: Path) -> None:
    host = Host(script=[outcome("measured", 2), outcome("measured", 3, 231.0), outcome("rolled-back", 4, **FAILED)])
    _, ended = conduct(planned(host, ngram(4), ngram(8), ngram(12), ngram(16)), tmp_path / "s")
    assert (ended.why, ended.code) == ("done", 0)
    assert [(r["release"], r["accept_slower"]) for r in host.filed] == [(2, True), (3, True), (4, True)]
    assert host.filed[0]["measure"] == {"concurrency": [1], "requests": 16, "tokens": 128, "repeats": 3}
    assert [m["budget"] for m in host.manifests] == [8, 4, 12]
    results = {c.budget: r for c, r in study.read(tmp_path / "s").results.items()}
    assert {b: r.status for b, r in results.items()} == {8: "good", 4: "good", 12: "bad", 16: "skipped"}
    assert results[12].lines == ("the last line of release 4",)
    assert results[12].operation == 13


def test_a_smaller_tree_may_accept_less_than_known_good_and_a_larger_one_may_not(tmp_path: Path) -> None:
    host = Host(script=[outcome("measured", n) for n in (2, 3, 4)])
    conduct(planned(host, ngram(4), ngram(8), ngram(12)), tmp_path / "s")
    tolerance = {m["budget"]: m["gates"]["acceptance"]["tolerance"] for m in host.manifests}
    assert tolerance == {8: 0.15, 4: 0.999, 12: 0.15}
    floors = {m["gates"]["acceptance"]["min_accept_length"] for m in host.manifests}
    assert floors == {1.05}, "a collapse is one at any budget"


def test_what_is_proven_bad_here_is_not_tried_unless_it_is_forced(tmp_path: Path) -> None:
    host = Host(bad_budgets=(12,), script=[outcome("measured", 2)])
    of, _ = conduct(planned(host, ngram(8), ngram(12), ngram(16)), tmp_path / "s")
    assert {c.budget: r.status for c, r in of.results.items()} == {8: "good", 12: "known-bad", 16: "skipped"}
    assert "it broke" in of.results[ngram(12)].reason
    forced = Host(bad_budgets=(12,), script=[outcome("measured", 2), outcome("measured", 3)])
    of, _ = conduct(planned(forced, ngram(8), ngram(12), force=True), tmp_path / "t")
    assert {c.budget: r.status for c, r in of.results.items()} == {8: "good", 12: "good"}
    assert [r["force"] for r in forced.filed] == [False, True], "with it the host asks less of known-good, too"


def test_the_newest_proof_on_the_same_stack_counts() -> None:
    bad, good = (evidence.Known(outcome, "what", (), "profile") for outcome in ("bad", "good"))
    assert evidence.proven_bad([good, bad]) == bad
    assert evidence.proven_bad([bad, good]) is None, "the newest of the profile is the last"
    bad, good = (evidence.Known(outcome, "what", (), "host") for outcome in ("bad", "good"))
    assert evidence.proven_bad([bad, good]) == bad
    assert evidence.proven_bad([good, bad]) is None, "the newest of the host is the first"
    assert evidence.proven_bad([evidence.Known("bad", "what", ("overlay",), "host")]) is None
    suite = evidence.Known("passed", "eval", (), "host")
    assert evidence.proven_bad([suite, bad, good]) == bad, "a suite that was passed proves nothing of a deploy"


def test_a_client_that_was_lost_takes_the_operation_up_and_files_it_not_again(tmp_path: Path) -> None:
    host = Host(script=[Interrupted("interrupted", "it goes on", "")])
    made = planned(host, ngram(8), ngram(12))
    with pytest.raises(Interrupted) as error:
        conduct(made, tmp_path / "s")
    assert "0 cells are in" in error.value.why
    assert error.value.hint == "the same command goes on with that study"
    host.script = [outcome("measured", 2), outcome("measured", 3)]
    of, ended = conduct(made, tmp_path / "s")
    assert ended.done
    assert [r["release"] for r in host.filed] == [2, 3]
    assert of.results[ngram(8)].operation == 11


def test_an_interrupt_while_a_lost_cell_is_looked_for_says_that_it_may_be_under_way(tmp_path: Path) -> None:
    class Interrupting(Host):
        def ask(self, call: str, **args: Any) -> Any:
            if call == "ledger":
                raise KeyboardInterrupt
            return super().ask(call, **args)

    made = planned(Interrupting(), ngram(8))
    with study.writing(tmp_path / "s", made.head) as of:
        of.write("begun", cell=ngram(8).as_json(), release=2, fingerprint="f", attempt=1)
    with pytest.raises(Interrupted) as error:
        conduct(made, tmp_path / "s")
    assert error.value.what == f"interrupted while the cell of {ngram(8)} was begun"
    assert "it may be under way at gpu-1, which ends it by itself" in error.value.why


@pytest.mark.parametrize("reached", [True, False])
def test_a_client_that_was_lost_while_it_filed_finds_out_whether_it_did(reached: bool, tmp_path: Path) -> None:
    host = Host()
    made = planned(host, ngram(8))
    with study.writing(tmp_path / "s", made.head) as of:
        of.write("begun", cell=ngram(8).as_json(), release=2, fingerprint="f", attempt=1)
    others = {"operation": 5, "release": {"release": 2, "fingerprint": "another"}}
    host.past = [{"operation": 6, "release": {"release": 2, "fingerprint": "f"}}, others] if reached else [others]
    host.script = [outcome("measured", 2)]
    of, ended = conduct(made, tmp_path / "s")
    assert ended.done
    assert of.results[ngram(8)].operation == (6 if reached else 11)
    assert len(host.filed) == (0 if reached else 1)


def test_a_host_that_stays_lost_ends_the_sweep_and_nothing_of_the_cell_is_said(tmp_path: Path) -> None:
    host = Host(script=[outcome("measured", 2), Unreachable("gpu-1 was lost", "no answer", "")])
    made = planned(host, ngram(8), ngram(12))
    with pytest.raises(Unreachable) as error:
        conduct(made, tmp_path / "s")
    assert error.value.exit_code == 6
    left = study.read(tmp_path / "s")
    assert [r.cell for r in left.found] == [ngram(8)]
    assert left.open is not None
    assert left.open["operation"] == 12


def test_settle_has_nothing_to_do_where_nothing_was_left(tmp_path: Path) -> None:
    host = Host()
    made = planned(host, ngram(8))
    with study.writing(tmp_path / "s", made.head) as of:
        host.asked.clear()
        assert trying.settle(made.setup, of, lambda _: None) is None
    assert host.asked == []


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["lab"], 2, "which budgets?"),
        (["lab", "--budgets", "many"], 2, "--budgets 4,8,12"),
        (["lab", "--budgets", "8,65"], 2, "takes 1 to 64"),
        (["lab", "--budgets", "8", "--graphs", "maybe"], 2, "on, off or both"),
        (["lab", "--budgets", "8", "--graphs", "on"], 5, "CUDA graphs do not exist on a CPU"),
        (["lab", "--budgets", "8", "--drill", "ilegal-access"], 2, "did you mean 'illegal-access'?"),
        (["lab", "--budgets", "8", "--drill-above", "8"], 2, "without a drill"),
        (["lab", "--budgets", "8", "--for", "soon"], 2, "write 90, 60s, 10m or 1h"),
        (["lab", "--budgets", "8", "--plot", "p.jpg"], 2, "--plot FILE.svg"),
        (["lab", "--budgets", "8"], 6, "cannot connect to h"),
    ],
)
def test_a_mistake_is_found_before_anybody_connects(args: list[str], code: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("hosts: {h: {address: 127.0.0.1, port: 1}}\nengine: {python: /p}\nmodel: /m\n")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DDOPS_SITE": str(tmp_path / "site.yaml")}
    argv = [sys.executable, "-m", "ddops", "sweep", *args]
    done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "site.yaml"], "no study is begun"
