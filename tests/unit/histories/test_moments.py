"""A death at every moment of an operation, one after another, and the histories in which something was lost once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ddops.agent import releases

from .engines import Behaviour
from .test_histories import THOROUGH, Histories

STEP = 1 if THOROUGH else 6
GOOD, FAULTS = Behaviour(), Behaviour("faults-after", 12)


@contextmanager
def history(*, adopts: bool = True, promoted: int = 1) -> Iterator[Histories]:
    """Begins a history; its end is a rollback that must work, and a look at what is left."""
    state = Histories()
    try:
        state.begins(adopts=adopts, planned=[])
        for _ in range(promoted):
            state.deploys(GOOD, [], "page", None, force=False)
    except BaseException:
        state.host.close()
        raise
    try:
        yield state
    finally:
        state.teardown()


@pytest.mark.parametrize("how", ["kill", "cut"])
@pytest.mark.parametrize("operation", ["promoted", "rolled-back", "rollback", "further-back", "adopt", "first"])
def test_a_death_at_every_moment(operation: str, how: str) -> None:
    """A killed supervisor goes on where it was; after a power cut the host is back on what boots."""
    at, ended = 1, False
    while not ended:
        with history(adopts=operation not in ("adopt", "first"), promoted=operation not in ("adopt", "first")) as state:
            planned = [(at, how)]
            if operation == "promoted":
                state.deploys(GOOD, planned, "page", None, force=False)
                assert how == "cut" or state.known_good == 2, at
            elif operation == "rolled-back":
                state.deploys(FAULTS, planned, "page", None, force=False)
                assert state.known_good == 1, at
            elif operation == "rollback":
                state.known_good_ends("engine-dies", [])
                state.rolls_back(planned)
            elif operation == "further-back":
                state.returns_to(0, planned)
                assert state.known_good == 0, at
            elif operation == "adopt":
                state.host.start_by_hand()
                state.adopts(planned)
            else:
                state.deploys(GOOD, planned, "page", None, force=False)
            ended = state.host.deaths + state.host.cuts == 0
        at += STEP
    assert at > 50


@pytest.mark.parametrize("ends", ["promoted", "rolled-back"])
def test_a_disk_that_fills_at_any_moment_leaves_a_service(ends: str) -> None:
    for at in range(1, 150) if THOROUGH else range(85, 135, 2):
        with history() as state:
            state.deploys(GOOD if ends == "promoted" else FAULTS, [(at, "disk-full")], "page", None, force=False)
            assert state.known_good in (1, 2) if ends == "promoted" else state.known_good == 1
            assert state.serving()[1:] == (state.known_good, state.known_good), at


def test_a_disk_that_fills_while_a_unit_is_adopted_leaves_it_as_it_was() -> None:
    for at in range(1, 90) if THOROUGH else range(30, 60, 2):
        with history(adopts=False, promoted=0) as state:
            state.host.start_by_hand()
            state.adopts([(at, "disk-full")])  # once more, where it was refused
            assert state.host.boots() == "sglang.service"


def test_a_disk_that_fills_at_any_moment_does_not_end_a_rollback() -> None:
    for at in range(1, 80) if THOROUGH else range(2, 74, 4):
        with history(promoted=2) as state:
            state.returns_to(1, [(at, "disk-full")])
            assert state.serving()[1:] == (1, 1), at
            assert state.known_good == 1, at
            assert not state.layout.front_target_of_trial.exists()


def test_a_rollback_needs_no_room_in_the_end_where_somebody_soon_takes_what_is_given() -> None:
    """What boots is the release that serves, while the disk stays full; the front's units are another's, too."""
    for at in range(1, 60) if THOROUGH else range(2, 60, 8):
        with history(promoted=2) as state:
            state.host.writes_of_a_part = 12
            for part in ("socket", "service"):
                (state.host.etc / f"lab-front.{part}").write_text("[Unit]\nDescription=another release's front\n")
            state.returns_to(1, [(at, "disk-full")])
            assert state.booted_while_full == "lab-0001.service", at


def test_a_death_while_old_releases_are_removed_leaves_none_half_removed() -> None:
    for at in range(1, 160) if THOROUGH else range(130, 141):
        with history(promoted=2) as state:
            state.deploys(GOOD, [(at, "kill")], "page", None, force=False)
            assert releases.numbers(state.layout) == [0, 2, 3], at


def test_a_promotion_that_failed_is_taken_back_before_the_way_back_can_fail() -> None:
    """The guard would restart the failed trial, and rollbacks go to it."""
    with history(promoted=0) as state:
        state.deploys(GOOD, [(49, "stranger"), (100, "engine-dies")], "restart", None, force=True)
        assert state.known_good == 0
        assert state.host.boots() == "sglang.service"


def test_a_first_promotion_that_failed_leaves_nothing_that_boots() -> None:
    with history(adopts=False, promoted=0) as state:
        state.deploys(GOOD, [(88, "engine-exits")], "rollback", None, force=False)
        assert state.known_good is None
        assert state.host.boots() is None


def test_a_rollback_that_changes_nothing_takes_what_a_failed_promotion_left() -> None:
    with history(promoted=0) as state:
        state.deploys(GOOD, [(49, "stranger"), (100, "engine-dies")], "page", None, force=True)
        state.cuts_the_power([])
        state.rolls_back([])


@pytest.mark.parametrize("adopts", [True, False])
def test_a_trial_that_could_not_be_ended_leaves_no_unit_behind(adopts: bool) -> None:
    with history(adopts=adopts, promoted=0) as state:
        state.deploys(Behaviour("faults-in-load", 0, 0.5, 0.1, 30.0), [], "page", None, force=False)
        assert "stuck" in state.excuses
        state.rolls_back([])
        state.deploys(GOOD, [], "page", None, force=False)
        assert state.known_good == 2


def test_a_way_back_without_a_front_leaves_no_target_of_the_trial() -> None:
    with history(promoted=0) as state:
        state.deploys(GOOD, [], "page", 5, force=False)  # users are on the trial, and nobody confirms it
        assert state.known_good == 0
        assert not state.layout.front_target_of_trial.exists()
