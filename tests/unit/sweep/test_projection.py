"""The projection: tokens a second times the ratio of accept lengths, and how far the measured value is from it."""

from __future__ import annotations

import pytest

from ddops.sweep.projection import projection

from .made import bad, cell, good


def test_the_field_reports_own_projection() -> None:
    results = [good(cell(8), 285, 4.48), good(cell(16, graphs=False), 111, 5.8), bad(cell(16))]
    found = projection(results[2], results, 1, 8)
    assert found is not None
    assert found.projected == pytest.approx(368.97, abs=0.01)
    assert (found.base, found.accept_length, found.miss) == (8, 5.8, None)


def test_the_miss_is_what_was_measured_against_what_was_projected() -> None:
    results = [good(cell(8), 285, 4.48), good(cell(16), 295.2, 5.8)]
    found = projection(results[1], results, 1, 8)
    assert found is not None
    assert found.miss == pytest.approx(295.2 / 368.97 - 1, abs=1e-4)
    assert projection(results[0], results, 1, 8) is None, "the base projects itself"


def test_graphs_are_never_projected_from_a_base_without() -> None:
    results = [good(cell(8), 285, 4.48), good(cell(16, graphs=False), 111, 5.8)]
    assert projection(results[1], results, 1, 8) is None
    results.append(good(cell(4, graphs=False), 80, 3.2))
    found = projection(results[1], results, 1, 8)
    assert found is not None
    assert found.base == 4
    assert found.projected == pytest.approx(80 * 5.8 / 3.2)


def test_each_concurrency_has_its_own_and_what_is_missing_is_none() -> None:
    results = [good(cell(8), 285, 4.0, c4=900.0), good(cell(16), 300, 5.0, c4=800.0)]
    found = projection(results[1], results, 4, 8)
    assert found is not None
    assert found.projected == 1125.0
    assert found.miss == pytest.approx(800 / 1125 - 1)
    assert projection(results[1], results, 16, 8) is None
    assert projection(good(cell(16), 300, None), results[:1], 1, 8) is None
    assert projection(results[1], [good(cell(8), None, 4.0), results[1]], 1, 8) is None
