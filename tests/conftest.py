"""What all tests share: a word on what was chosen by the day."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tells which cells of the matrix belong to the day, and how they are run again."""
    if "lab" in str(terminalreporter.config.option.markexpr).replace("not lab", ""):
        from benchmarks import matrix  # the overlay's tests run where this is not installed

        day = matrix.today()
        chosen = "; ".join(" ".join(cell) for cell in matrix.sample(day))
        terminalreporter.write_line(f"cells of the matrix on day {day} ({matrix.DAY}): {chosen}")
