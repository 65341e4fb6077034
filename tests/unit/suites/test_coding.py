"""The coding suite's problems, and what is taken for a program."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ddops import config, suites
from ddops.agent.suites.coding import _canonical, program_of
from ddops.errors import UsageError

from . import solutions

PROBLEMS = suites.coding()


def test_there_are_at_least_twenty_problems_each_once() -> None:
    names = [problem["name"] for problem in PROBLEMS]
    assert len(set(names)) == len(names) >= 20
    assert all(len(problem["tests"]) >= 5 for problem in PROBLEMS)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: str(p["name"]))
def test_every_problem_can_be_solved_and_no_constant_solves_it(problem: dict[str, Any]) -> None:
    function = getattr(solutions, problem["signature"].partition("(")[0])
    for test in problem["tests"]:
        assert _canonical(function(*copy.deepcopy(test["args"]))) == _canonical(test["want"]), test
    assert len({json.dumps(test["want"]) for test in problem["tests"]}) > 1


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("```python\ndef f(a):\n    return a\n```\nThis works.", "def f(a):\n    return a\n"),
        ("def f(a): return 1", "def f(a): return 1"),
        ("```\ndef g(): 1\n```\n```py\ndef f(a): 2\n```\n```\nf(3)\n```", "def f(a): 2\n"),
        ("<think>```python\ndef f(a): 1\n```</think>```python\ndef f(a): 2\n```", "def f(a): 2\n"),
        ("```python\ndef f(a):\n    return 1  # cut off", "def f(a):\n    return 1  # cut off"),
        ("<think>```python\ndef f(a): 1\n```</think>I give up.", None),
        ("I would use a loop.", None),
        ("```python\ndef other(a): 1\n```", None),
        ("!!!!!!!!", None),
        ("", None),
    ],
)
def test_the_program_is_the_last_block_that_defines_the_function(answer: str, program: str | None) -> None:
    assert program_of(answer, "f") == program


def test_values_of_other_types_are_not_equal() -> None:
    assert len({_canonical(value) for value in (1, True, 1.0, "1", [1])}) == 5


@pytest.mark.parametrize(
    ("wrong", "told"),
    [("signature: add(a", "no function"), ("signature: add(a)", "the 1 arguments"), ("hint: x", "hint")],
)
def test_a_problem_that_cannot_be_is_refused_with_its_place(tmp_path: Path, wrong: str, told: str) -> None:
    lines = ["name: add", "signature: add(a, b)", "task: Add.", "tests: [{args: [1, 2], want: 3}]"]
    lines = [wrong if line.split(":")[0] == wrong.split(":")[0] else line for line in lines]
    if wrong not in lines:
        lines.append(wrong)
    file = tmp_path / "own.yaml"
    file.write_text("problems:\n- " + "\n  ".join(lines) + "\n")
    with pytest.raises(UsageError) as caught:
        config.read(file, suites.Problems)
    assert told in str(caught.value)
