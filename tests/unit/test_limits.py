"""The arithmetic of a budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddops import drafting, limits, overlay, profile
from ddops.errors import Refused, UsageError
from ddops.profile import Profile
from ddops.site import EngineEntry, HostEntry, Site

SITE = Site(hosts={"h": HostEntry(address="h")}, engine=EngineEntry(python="/p"), model="/m", drafter="/d")
B300 = profile.load("b300")


def wanting(max_running: int) -> Profile:
    return B300.model_copy(update={"limits": B300.limits.model_copy(update={"max_running": max_running})})


def computed(of: Profile, budget: int, asked: int | None = None) -> limits.Limits:
    return limits.compute(of, of.speculation[0], budget, asked)


@pytest.mark.parametrize(("budget", "most"), [(8, 133), (12, 92), (16, 70), (32, 36)])
def test_max_running_is_lowered_to_the_ceiling(budget: int, most: int) -> None:
    found = computed(wanting(500), budget)
    assert found.max_running == most
    assert found.lowered
    assert "lowered from 500 to hold the ceiling" in "\n".join(found.lines())


def test_the_profile_wins_where_the_ceiling_allows_it() -> None:
    found = computed(B300, 12)
    assert (found.max_running, found.lowered) == (64, False)
    assert "max running 64 = min(64, 1200 / 13)" in found.lines()


def test_more_than_the_ceiling_is_refused_with_the_arithmetic() -> None:
    assert computed(B300, 12, 92).max_running == 92
    with pytest.raises(Refused) as caught:
        computed(B300, 12, 93)
    assert caught.value.why == "93 x 13 = 1209 verify tokens, the ceiling is 1200"
    assert caught.value.hint == "--max-running 92 is the most: 1200 / 13"
    with pytest.raises(UsageError):
        computed(B300, 12, 0)


def test_the_masks_of_the_field() -> None:
    """About 37 MB was judged for 128 requests at budget 8, without the verify width in each row."""
    assert limits.mask_bytes(128, 9, 32768) == 128 * 9 * 32777 == 37_759_104
    assert computed(B300, 32).mask_bytes == 36 * 33 * (32768 + 33)


def test_the_kv_reserve_is_two_steps_of_each_request() -> None:
    assert computed(B300, 12).kv_reserve_bytes == 2 * 13 * 61 * 576 * 2


def test_the_accept_length_is_bound_by_the_drafters_block_where_there_is_one() -> None:
    assert computed(B300, 32).accept_bound == 8
    ngram = next(d for d in B300.speculation if d.algorithm == "NGRAM")
    assert limits.compute(B300, ngram, 32, None).accept_bound is None


@given(st.integers(1, 64), st.integers(1, 1000))
def test_the_ceiling_holds_for_every_budget(budget: int, wanted: int) -> None:
    found = computed(wanting(wanted), budget)
    assert found.max_running * found.width <= 1200
    assert found.max_running == wanted or (found.max_running + 1) * found.width > 1200


def test_a_budget_too_large_for_one_request_is_refused() -> None:
    small = B300.model_copy(update={"limits": B300.limits.model_copy(update={"verify_tokens": 12})})
    with pytest.raises(Refused, match="too large for one request"):
        computed(small, 12)


def test_without_a_ceiling_there_is_no_limit_and_it_is_said() -> None:
    lab = profile.load("lab")
    assert computed(lab, 64, 500).max_running == 500
    assert "no ceiling of verify tokens is known here" in "\n".join(computed(lab, 64).lines())


@pytest.mark.parametrize(("budget", "algorithm"), [(7, "DFLASH"), (8, "NGRAM"), (12, "NGRAM"), (32, "NGRAM")])
def test_what_the_overlay_does_not_bring_is_passed_over_and_named(
    budget: int, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "algorithms", list)
    choice = drafting.choose(B300, SITE, budget, None)
    assert choice.drafting.algorithm == algorithm
    assert choice.passed_over[0] == ("DDTREE", "the overlay of this ddops does not bring it")


def test_what_the_overlay_brings_is_taken_first() -> None:
    choice = drafting.choose(B300, SITE, 12, None)
    assert (choice.drafting.algorithm, choice.passed_over) == ("DDTREE", ())


def test_a_budget_below_the_drafters_depth_is_not_ddtrees() -> None:
    choice = drafting.choose(B300, SITE, 6, None)
    assert choice.drafting.algorithm == "NGRAM"
    assert choice.passed_over[0] == ("DDTREE", "it serves budgets 7 to 64")


@pytest.mark.parametrize(("budget", "wanted", "topk"), [(12, None, 8), (7, None, 7), (12, 6, 6), (12, 12, 12)])
def test_topk_is_the_wanted_or_the_profiles_and_never_above_the_budget(
    budget: int, wanted: int | None, topk: int
) -> None:
    assert drafting.candidates(B300.speculation[0], budget, wanted) == topk


@pytest.mark.parametrize(("algorithm", "wanted"), [(0, 13), (0, 0), (1, 4), (2, 4)])
def test_a_topk_that_cannot_be_is_refused(algorithm: int, wanted: int) -> None:
    with pytest.raises(UsageError, match="topk"):
        drafting.candidates(B300.speculation[algorithm], 12, wanted)


@pytest.mark.parametrize(
    ("wanted", "budget", "why"),
    [
        ("DDTREE", 6, "it serves budgets 7 to 64"),
        ("DFLASH", 12, "it serves budget 7 alone"),
        ("dflash", 8, "it serves budget 7 alone"),
    ],
)
def test_an_algorithm_that_cannot_serve_the_budget_is_refused_with_the_reason(
    wanted: str, budget: int, why: str
) -> None:
    with pytest.raises(Refused) as caught:
        drafting.choose(B300, SITE, budget, wanted)
    assert caught.value.why == why
    assert caught.value.hint == f"--algorithm {'DDTREE' if budget > 6 else 'NGRAM'} can"


def test_a_drafter_that_the_site_does_not_name_is_missed() -> None:
    without = SITE.model_copy(update={"drafter": None})
    choice = drafting.choose(B300, without, 7, None)
    assert choice.drafting.algorithm == "NGRAM"
    assert choice.passed_over[1] == ("DFLASH", "it needs a drafter, and the site file names none")


def test_an_algorithm_that_is_not_listed_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        drafting.choose(B300, SITE, 8, "ddtre")
    assert caught.value.hint == "did you mean DDTREE?"


def test_nothing_on_board_is_refused_with_every_reason() -> None:
    only = B300.model_copy(update={"speculation": B300.speculation[:2]})
    with pytest.raises(Refused) as caught:
        drafting.choose(only, SITE, 6, None)
    assert caught.value.why == "DDTREE: it serves budgets 7 to 64; DFLASH: it serves budget 7 alone"
