"""A few cells of the matrix, others each day: all have been run after some weeks, and the whole of it by hand."""

from __future__ import annotations

import pytest

from benchmarks import matrix

from .service_host import ServiceHost

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("stub", [matrix.DISK], indirect=True)
def test_the_cells_of_the_day(served: ServiceHost) -> None:
    runs = matrix.Matrix(served)
    cells = [runs.cell(*cell) for cell in matrix.sample(matrix.today())]
    assert [cell for cell in cells if cell.problem] == []
