"""The agent's state machine: whatever happens in whichever order, nothing is lost.

The operators' calls, the supervisor and all of its steps are the agent's own code. A death comes at any write of the
step log, change of a file or call of systemd, and drops all that is in memory.

``HYPOTHESIS_PROFILE=thorough`` tells thousands of histories instead of some.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ddops.agent import brakes, durable, lock, releases, requests, status, steplog, systemd
from ddops.agent.errors import AgentError, Locked

from .engines import BAD, GOOD, Behaviour
from .host import ADOPTED, Host
from .units import PUBLIC

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
ENDS_LIVES = ("kill", "cut")
ACTS = (
    *ENDS_LIVES, *ENDS_LIVES, "rollback", "rollback-to", "deploy", "pause", "resume", "confirm", "second-writer",
    "engine-dies", "engine-exits", "disk-full", "stranger",
)  # fmt: skip
LAST = 150  # a deploy has about so many moments


def moments(*acts: str, most: int = 4) -> st.SearchStrategy[list[tuple[int, str]]]:
    return st.lists(st.tuples(st.integers(1, LAST), st.sampled_from(acts)), max_size=most)


behaviours = st.one_of(
    st.just(Behaviour()),
    st.builds(
        Behaviour,
        kind=st.sampled_from(BAD + GOOD),
        after=st.integers(0, 60),
        load_s=st.sampled_from([0.5, 8.0]),
        stop_s=st.sampled_from([0.1, 60.0]),
        stuck_s=st.sampled_from([0.0, 0.0, 0.0, 30.0]),
    ),
)


class Histories(RuleBasedStateMachine):
    """Two operators, an unreliable host, and what must hold of it."""

    def __init__(self) -> None:
        super().__init__()
        self.host = Host()
        self.layout = self.host.layout
        self.known_good: int | None = None
        self.promoted: set[int] = set()
        self.told = 0  # outcomes that the model has seen
        self.highest = -1
        self.booted_while_full: str | None = None
        self.excuses: set[str] = set()  # why a way back may fail, or known-good be down, until the next rollback

    # ---- beginnings

    @initialize(adopts=st.sampled_from([True, True, True, False]), planned=moments(*ENDS_LIVES, "engine-dies", most=2))
    def begins(self, adopts: bool, planned: list[tuple[int, str]]) -> None:
        if adopts:
            self.host.start_by_hand()
        self.host.install()
        if adopts:
            self.adopts(planned)

    def adopts(self, planned: list[tuple[int, str]]) -> None:
        """Adopts the hand-made unit; where something came between, once more."""
        host = self.host
        spec = {**host.spec(), "engine": {"model": "x"}}
        for acts in (planned, []):
            if self.known_good is None:
                host.units._start_engine(ADOPTED)
                host.turns.advance(10)
                self.excuses.clear()
                host.file("adopt", "anna", unit=ADOPTED, port=None, spec=spec)
                self._lives(acts)
                assert (self.known_good is None) == (releases.numbers(self.layout) == []) == (host.boots() is None)
        assert self.known_good == 0

    # ---- what operators do

    @rule(
        behaviour=behaviours,
        planned=moments(*ACTS),
        policy=st.sampled_from(["page", "restart", "rollback"]),
        confirm=st.sampled_from([None, None, 5]),
        force=st.booleans(),
    )
    def deploys(
        self, behaviour: Behaviour, planned: list[tuple[int, str]], policy: str, confirm: int | None, force: bool
    ) -> None:
        host = self.host
        serving = self.serving()
        started = len(host.units.starts)
        number = host.stage("anna", policy)
        assert number > self.highest, "the sequence went back"
        self.highest = number
        host.behaviours[number] = behaviour
        paused = brakes.paused(self.layout)
        if behaviour.stuck_s:
            self.excuses.add("stuck")
        operation = host.file(
            "deploy", "anna", release=number, soak_s=2, confirm_s=confirm, force=force, first=self.known_good is None
        )
        self._lives(planned)
        outcome = durable.read_json(steplog.outcome_file(self.layout, operation))
        assert outcome["outcome"] in ("promoted", "rolled-back", "rollback-failed", "refused")
        trials = [boot for boot, p in host.units.starts[started:] if p.release == number]
        if outcome["outcome"] == "promoted":
            assert behaviour.kind not in BAD, f"{behaviour.kind} was promoted"
        else:
            assert len(trials) == len(set(trials)), "a trial was started twice"
            assert not (self.layout.release_dir(number) / "promoted.json").exists(), "a rollback could go to it"
        if paused and not planned:
            assert outcome["outcome"] == "refused"
        if outcome["outcome"] == "refused":
            assert not trials
            if not planned:
                assert self.serving() == serving, "a refused deploy touched what serves"

    @rule(planned=moments(*ACTS))
    def deploys_what_is_good(self, planned: list[tuple[int, str]]) -> None:
        self.deploys(Behaviour(), planned, "restart", None, force=True)

    @rule(planned=moments(*ENDS_LIVES, "rollback", "deploy", "second-writer", most=3))
    def rolls_back(self, planned: list[tuple[int, str]]) -> None:
        """In a world that is whole again a rollback always works."""
        host = self.host
        host.turns.advance(60)
        host.units.stranger = None
        self.excuses.clear()
        if self.known_good is not None and self._behaviour(self.known_good).stuck_s:
            self.excuses.add("stuck")
        operation = requests.rollback(self.layout, None, "bert")["operation"]
        self._lives(planned)
        outcome = durable.read_json(steplog.outcome_file(self.layout, operation))
        if self.known_good is None:
            assert outcome["outcome"] == "refused"
        elif self._behaviour(self.known_good).kind == "good" and not self.excuses:
            assert outcome["outcome"] in ("rolled-back", "unchanged"), outcome

    @precondition(lambda self: len(self.promoted) > 1)
    @rule(data=st.data(), planned=moments(*ENDS_LIVES, "second-writer", most=2))
    def rolls_back_to(self, data: st.DataObject, planned: list[tuple[int, str]]) -> None:
        self.returns_to(data.draw(st.sampled_from(sorted(self.promoted))), planned)

    def returns_to(self, target: int, planned: list[tuple[int, str]]) -> None:
        """Rolls back to a release that was promoted once."""
        before = self.serving()
        operation = requests.rollback(self.layout, target, "bert")["operation"]
        if self._behaviour(target).kind != "good" or self._behaviour(target).stuck_s:
            self.excuses.add("a target that is not good")
        self._lives(planned)
        outcome = durable.read_json(steplog.outcome_file(self.layout, operation))["outcome"]
        assert outcome != "unchanged" or before[1] == target, "a restart of the supervisor hid a rollback"
        if target not in releases.numbers(self.layout):
            assert outcome == "refused"
            assert planned or self.serving() == before

    @precondition(lambda self: self.known_good)
    @rule()
    def damages_known_good(self) -> None:
        """A way back that is damaged is refused before anything stops, by deploys and rollbacks."""
        unit = self.layout.release_dir(self.known_good or 0) / f"lab-{self.known_good:04d}.service"
        whole, before = unit.read_bytes(), self.serving()
        unit.write_bytes(whole + b"#\n")
        self.excuses.add("damaged")
        for number in (
            requests.rollback(self.layout, None, "bert")["operation"],
            None,
        ):
            if number is None:
                release = self.host.stage("anna")
                self.highest = release
                number = self.host.file("deploy", "anna", release=release, soak_s=2)
            self._lives([])
            outcome = durable.read_json(steplog.outcome_file(self.layout, number))
            assert outcome["outcome"] == "refused", outcome
        assert self.serving() == before, "it was stopped before the refusal"
        unit.write_bytes(whole)
        self.excuses.discard("damaged")

    @rule(planned=moments("kill", most=2))
    def rolls_back_without_a_supervisor(self, planned: list[tuple[int, str]]) -> None:
        """A process of its own carries it out; one that dies leaves it to the next or to the supervisor."""
        host = self.host
        host.units.supervisor = "failed"
        self.excuses.add("no supervisor")
        requests.rollback(self.layout, None, "bert")
        host.plans = self._plans(planned)
        host.live()
        host.plans = []
        host.units.supervisor = "active"
        self.excuses.discard("no supervisor")
        self._lives([])

    @rule()
    def pauses(self) -> None:
        brakes.pause(self.layout, "bert", "", None)

    @precondition(lambda self: self.layout.paused.exists())
    @rule()
    def resumes(self) -> None:
        brakes.resume(self.layout)

    @rule(planned=moments("kill", "rollback", "engine-dies", most=2))
    def cuts_the_power(self, planned: list[tuple[int, str]]) -> None:
        self.host.cuts += 1
        self.host._restart()
        self.host.units.supervisor = "active"
        self._lives(planned)

    @precondition(lambda self: self.known_good is not None)
    @rule(how=st.sampled_from(["engine-dies", "engine-exits"]), planned=moments(*ENDS_LIVES, "rollback", most=2))
    def known_good_ends(self, how: str, planned: list[tuple[int, str]]) -> None:
        self._act(how)
        self._lives(planned)

    # ---- what happens at a moment

    def _plans(self, planned: list[tuple[int, str]]) -> list[tuple[int, Callable[[], None]]]:
        now = self.host.crossings
        return [(now + at, self._acting(what)) for at, what in sorted(planned)]

    def _acting(self, what: str) -> Callable[[], None]:
        return lambda: self._act(what)

    def _act(self, what: str) -> None:
        host, layout = self.host, self.layout
        if what == "kill":
            return host.kill_supervisor()
        if what == "cut":
            return host.cut_power()
        if what in ("engine-dies", "engine-exits"):
            if host.units.processes:
                self.excuses.add(what)
                ended = ("killed", "9") if what == "engine-dies" else ("exited", "0")
                host.units.ends(host.units.processes[-1], *ended)
        elif what == "disk-full":
            self.excuses.add(what)
            host.disk_full = True
            host.turns.at(20, self._disk_has_room)
        elif what == "stranger":
            self.excuses.add(what)
            host.units.stranger = 31000 + self.highest
        elif what == "second-writer":
            with contextlib.suppress(Locked), lock.held(layout):
                assert not host.operating, "two could write"
        elif what == "deploy":
            under_way = steplog.under_way(layout)
            with contextlib.suppress(Locked, OSError):
                self.highest = max(self.highest, host.stage("bert"))
                assert under_way is None, "a release was staged in the middle of an operation"
        else:
            with contextlib.suppress(AgentError, OSError):
                self._asks(what)
        return None

    def _disk_has_room(self) -> None:
        self.booted_while_full = self.host.boots()
        self.host.disk_full = False

    def _asks(self, what: str) -> None:
        layout = self.layout
        if what == "rollback":
            requests.rollback(layout, None, "bert")
        elif what == "rollback-to" and self.promoted:
            requests.rollback(layout, min(self.promoted), "bert")
        elif what == "pause":
            brakes.pause(layout, "bert", "", None)
        elif what == "resume":
            brakes.resume(layout)
        elif what == "confirm":
            requests.confirm(layout, "bert")

    # ---- what must hold

    def _lives(self, planned: list[tuple[int, str]]) -> None:
        """Lets the host live to its rest, with what was planned, and compares it with the model."""
        host = self.host
        host.plans = self._plans(planned)
        host.live()
        host.plans = []
        host.disk_full = False
        assert not host.invariants.violations, host.invariants.violations
        assert steplog.under_way(self.layout) is None, "an operation was left under way"
        for outcome in steplog.outcomes(self.layout)[self.told :]:
            self._learn(outcome)
            self.told += 1
        self._compare()

    def _learn(self, outcome: dict[str, Any]) -> None:
        number = (outcome["release"] or {}).get("release", -1)
        what, kind = outcome["outcome"], outcome["kind"]
        assert outcome["operation"] == self.told + 1, "an operation is missing or came twice"
        if what in ("promoted", "adopted") or (kind in ("rollback", "restart") and what not in _NOTHING):
            self.known_good = number
            self.promoted.add(number)
        if what == "rollback-failed":
            bad = self.known_good is None or self._behaviour(self.known_good).kind != "good"
            why = str((outcome.get("rollback") or outcome["reason"])["what"])
            excused = self.excuses - {"stuck"} or ("stuck" in self.excuses and "is not gone" in why)
            assert excused or bad, outcome

    def _compare(self) -> None:
        host, layout = self.host, self.layout
        found = durable.read_json(layout.known_good)
        assert (found["release"] if found else None) == self.known_good
        assert releases.next_number(layout) > self.highest
        status.status(layout)
        if self.known_good is None:
            return
        release = releases.pointed(layout, layout.known_good)
        assert release is not None
        assert systemd.boots(layout) == release.unit
        if not self.excuses:
            assert releases.problems(release) == []
        if not self.excuses and self._behaviour(self.known_good).kind == "good":
            assert self.serving()[1:] == (self.known_good, self.known_good), (self.serving(), self.known_good)
            assert status.status(layout)["healthy"]
            assert releases.pointed(layout, layout.live) == release
            ours = set() if release.adopted else {release.unit}
            left = {p.name for f in (host.etc, host.run_units) for p in f.glob("lab-[0-9]*.service")}
            assert left == ours, "units are left over"
            assert not list(self.layout.releases.glob(".pruned-*")), "a release is half removed"
            assert not layout.front_target_of_trial.exists()

    def serving(self) -> tuple[str, int | None, int | None]:
        """Returns the invocation that runs, its release, and the release that the public port leads to."""
        units = self.host.units
        process = next((p for p in units.processes if p.healthy), None)
        if process is None:
            return "", None, None
        if process.port == PUBLIC:
            return process.invocation, process.release, process.release
        led = units._target() if units.listening_socket else ""
        return process.invocation, process.release, int(led) - 31000 if led else None

    def _behaviour(self, release: int) -> Behaviour:
        return self.host.behaviours.setdefault(release, Behaviour())

    def teardown(self) -> None:
        try:
            if self.known_good is not None:
                self.host.units.supervisor = "active"
                self.rolls_back([])
        finally:
            self.host.close()


_NOTHING = ("refused", "rollback-failed")
TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=4000 if THOROUGH else 60,
    stateful_step_count=12 if THOROUGH else 8,
    deadline=None,
    derandomize=not THOROUGH,
    database=None,
    suppress_health_check=list(HealthCheck),
)
