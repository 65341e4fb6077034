"""Coding: problems with hidden tests. What the model wrote runs in the sandbox, what is expected never enters it.

The program's results come out as JSON and are compared here, so a program can lie about nothing but its own results:
to be counted as right it has to know the right answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..engine import Engine
from ..errors import GateFailed
from ..sandbox import Limits, Ran, run

GATE = 5  # the first so many problems are the gate
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_RUNNER = """
import json, os, sys
given = json.load(sys.stdin)
out = os.dup(1)
os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
results = []
try:
    space = {"__name__": "program"}
    exec(compile(given["program"], "program", "exec"), space)
    for args in given["calls"]:
        try:
            results.append({"value": json.loads(json.dumps(space[given["function"]](*args)))})
        except BaseException as error:
            results.append({"raised": repr(error)[:200]})
except BaseException as error:
    results = [{"raised": repr(error)[:200]}] * len(given["calls"])
with os.fdopen(out, "wb") as channel:
    channel.write(json.dumps(results).encode())
os._exit(0)
"""
_ASK = (
    "Write a Python function `{signature}`.\n\n{task}\n\n"
    "Answer with one Python code block that holds the function and whatever it needs from the standard library."
)


def program_of(answer: str, function: str) -> str | None:
    """Returns the program in an answer: its last code block that defines the function; None where there is none.

    What a model thinks before it answers is no answer; an answer without any block may be the program itself.
    """
    said = answer.rpartition("</think>")[2]
    defines = re.compile(rf"^\s*(?:async\s+)?def\s+{re.escape(function)}\s*\(", re.MULTILINE)
    blocks = _FENCE.findall(said) or [said]
    found = [block for block in blocks if defines.search(block)]
    return found[-1] if found else None


def judge(problem: dict[str, Any], answer: str, limits: Limits) -> dict[str, Any]:
    """Runs the program in an answer; returns its verdict and why.

    Verdicts: right, wrong, raised, time, output, ended (it ended, or was ended, without all of its results) and
    no program.
    """
    function = problem["signature"].partition("(")[0]
    program = program_of(answer, function)
    if program is None:
        return {"verdict": "no program", "why": answer[-200:]}
    calls = [test["args"] for test in problem["tests"]]
    given = json.dumps({"program": program, "function": function, "calls": calls}).encode()
    ran = run(["/usr/bin/python3", "-I", "-S", "-c", _RUNNER], given, limits)
    return _verdict(ran, problem["tests"])


def _verdict(ran: Ran, tests: list[dict[str, Any]]) -> dict[str, Any]:
    if ran.stopped:
        return {"verdict": ran.stopped, "why": "it was stopped"}
    try:
        results = json.loads(ran.output)
    except ValueError:
        results = None
    if not isinstance(results, list) or len(results) != len(tests):
        return {"verdict": "ended", "why": f"exit code {ran.code}, {len(ran.output)} bytes of results"}
    for number, test in enumerate(tests, 1):
        result = results[number - 1]
        if not isinstance(result, dict) or "value" not in result:
            why = str(result.get("raised") if isinstance(result, dict) else result)[:200]
            return {"verdict": "raised", "why": f"test {number}: {why}"}
        if _canonical(result["value"]) != _canonical(test["want"]):
            return {"verdict": "wrong", "why": f"test {number}: {json.dumps(result['value'])[:200]}"}
    return {"verdict": "right", "why": ""}


def _canonical(value: Any) -> str:
    """Returns a value as text in which 1, true and 1.0 differ."""
    return json.dumps(value, sort_keys=True)


def coding(
    engine: Engine, settings: dict[str, Any], timeout: float, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Asks every problem of ``settings`` and judges the answers; returns the score and what is below the thresholds.

    ``gate`` is how many of the first five have to be right, ``right`` the share of all of them.
    An answer that does not come is that problem's verdict: "no answer".
    """
    limits = Limits(seconds=settings["seconds"])

    def one(problem: dict[str, Any]) -> dict[str, Any]:
        prompt = _ASK.format(signature=problem["signature"], task=problem["task"].strip())
        try:
            answer = engine.chat(prompt, settings["tokens"], timeout, stream=False, more=settings["request"])
        except GateFailed as error:
            return {"name": problem["name"], "verdict": "no answer", "why": f"{error.what}: {error.why}"}
        verdict = judge(problem, answer, limits)
        tell(f"{problem['name']}: {verdict['verdict']}")
        return {"name": problem["name"], **verdict}

    with ThreadPoolExecutor(settings["concurrency"]) as pool:
        judged = list(pool.map(one, settings["problems"]))
    right = sum(j["verdict"] == "right" for j in judged)
    gate = sum(j["verdict"] == "right" for j in judged[:GATE])
    first = min(GATE, len(judged))
    wanted, wanted_first = math.ceil(settings["right"] * len(judged)), min(settings["gate"], first)
    problems = []
    if gate < wanted_first:
        problems.append(f"{gate} of the first {first} are right, {wanted_first} are wanted")
    if right < wanted:
        problems.append(f"{right} of {len(judged)} are right, {wanted} are wanted")
    return {"right": right, "of": len(judged), "gate": gate, "judged": judged, "problems": problems}
