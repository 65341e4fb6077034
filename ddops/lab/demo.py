"""The main job in front of the user, with the real ddops on a real host with the real SGLang."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from ddops import profile as profiles
from ddops.lab import deps, engine, hand_made
from ddops.lab.errors import LabError
from ddops.lab.lab import Lab
from ddops.lab.options import Bind, HostOptions

HOST = "lab"
_ANSWER_S = 180.0


def run(lab: Lab, report: Callable[[str], None]) -> float:
    """Boots a fresh host and runs the job; the host stays up. Returns the seconds that it took.

    Raises LabError for the first thing that did not happen.
    """
    began = time.monotonic()
    engine.must_fit(lab.config.distribution)
    deps.install(report)
    engine.build(lab.config.cache, report)
    profile = profiles.load("lab")
    lab.down(HOST)
    binds = tuple(Bind(Path(source), target) for source, target in engine.binds(lab.config.cache))
    lab.up(HOST, options=HostOptions(binds=binds))
    report(f"starting {hand_made.UNIT} by hand: SGLang on port {profile.ports.public}, no speculation")
    hand_made.start(lab, HOST, profile, f"{engine.ENGINE}/bin/python", engine.MODEL)
    _until_it_answers(lab, profile.ports.public, report)

    _ddops(lab, "adopt", hand_made.UNIT, "--profile", "lab", expect=0)
    _ddops(lab, "deploy", "lab", "--budget", "8", "--soak", "5s", "--yes", expect=0)
    for drill, after in (("illegal-access", "150"), ("garbage", "60")):
        asked = ("--budget", "12", "--soak", "30s", "--drill", drill, "--drill-after", after, "--yes")
        _ddops(lab, "deploy", "lab", *asked, expect=3)
        _answers(lab, profile.ports.public)
    _in_the_journal(lab, "an illegal memory access was encountered")
    _ddops(lab, "status", expect=0)
    _ddops(lab, "history", expect=0)
    status = _status(lab)
    if status["known_good"]["budget"] != 8 or status["live"]["release"] != status["known_good"]["release"]:
        raise LabError("budget 8 is not what serves in the end", json.dumps(status), "ddops logs")
    report(f"\nthe host stays up: {sys.argv[0]} status; ssh -F {lab.config.ssh_config} {HOST}")
    report(f"{sys.argv[0]} lab down --all removes it")
    return time.monotonic() - began


def _until_it_answers(lab: Lab, port: int, report: Callable[[str], None]) -> None:
    end = time.monotonic() + _ANSWER_S
    began, told = time.monotonic(), 0.0
    while time.monotonic() < end:
        try:
            _answers(lab, port)
        except LabError:
            if time.monotonic() - told > 5:
                told = time.monotonic()
                report(f"it loads ({told - began:.0f} s)")
            time.sleep(0.2)
            continue
        report(f"it answers right, after {time.monotonic() - began:.0f} s")
        return
    raise LabError(
        f"{hand_made.UNIT} does not answer", f"not within {_ANSWER_S:g} s", f"ddops lab exec {HOST} journalctl"
    )


def _answers(lab: Lab, port: int) -> None:
    """Asks as a user does; raises LabError for anything but the right answer."""
    question = {"role": "user", "content": "What is the capital of France?"}
    body = {"model": "lab", "messages": [question], "max_tokens": 12, "temperature": 0}
    try:
        answer = httpx.post(f"http://{lab.address(HOST)}:{port}/v1/chat/completions", json=body, timeout=30).json()
        text = answer["choices"][0]["message"]["content"]
    except (httpx.HTTPError, ValueError, KeyError) as error:
        raise LabError("the public port does not answer", str(error), "ddops status") from None
    if "Paris" not in text:
        raise LabError("the public port answers wrong", text, "ddops status")


def _in_the_journal(lab: Lab, text: str) -> None:
    found = lab.exec(HOST, "journalctl", "-t", "lab", "--no-pager", "-o", "cat", "--grep", text).stdout.strip()
    if not found:
        raise LabError("the fault is not in the host's journal", f"no line with '{text}'", "ddops logs")


def _command(arguments: tuple[str, ...], lab: Lab) -> list[str]:
    """The lab's own site, whatever other one the user has."""
    return [sys.executable, "-m", "ddops", *arguments, "--host", HOST, "--site", str(lab.config.site)]


def _ddops(lab: Lab, *arguments: str, expect: int) -> None:
    """Shows a command, runs it, and raises LabError where it does not end as it must."""
    sys.stderr.write(f"\n$ ddops {' '.join(arguments)}\n")
    sys.stderr.flush()
    code = subprocess.run(_command(arguments, lab), check=False).returncode
    if code != expect:
        raise LabError(f"ddops {arguments[0]} ended with {code}", f"{expect} was expected", "ddops history")


def _status(lab: Lab) -> Any:
    done = subprocess.run(_command(("status", "--json"), lab), capture_output=True, check=False)
    return json.loads(done.stdout)
