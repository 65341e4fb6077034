"""An evaluation: one suite put to the engine that serves, on its own host."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import baseline, evaluations, recording, releases, service, steplog
from .errors import GateFailed, Locked, Refused
from .gates.lossless import lossless
from .gates.smoke import smoke
from .layout import Layout
from .releases import Release
from .suites.coding import coding
from .suites.garbage import garbage
from .suites.load import load

Tell = Callable[[str], None]


def evaluate(layout: Layout, suite: str, settings: dict[str, Any], by: str) -> Iterator[dict[str, Any]]:
    """Yields progress and, last, the result: suite, release, ``passed``, ``problems`` in words, evidence, seconds.

    It is kept for the ledger; ``not_kept`` says why it could not be, '' where it is.

    Raises Refused where nothing serves, Locked while an operation is under way: what answers may change in the middle.
    """
    release = _serving(layout)
    told: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(_run, layout, release, suite, settings, told.put)
        done.add_done_callback(lambda _: told.put(None))
        while (text := told.get()) is not None:
            yield {"event": "progress", "text": text}
        result = done.result()
    if _serving(layout).sha256 != release.sha256:
        raise Refused("another release serves than when it began", "what was measured is of neither", "once more")
    yield {"event": "result", "result": {**result, "not_kept": evaluations.keep(layout, release, result, by)}}


def _serving(layout: Layout) -> Release:
    if under_way := steplog.under_way(layout):
        raise Locked(f"a {under_way['kind']} is under way", "it changes what serves", "ddops status")
    release = releases.pointed(layout, layout.live)
    if release is None:
        raise Refused(f"'{layout.name}' has no live release", "nothing was adopted or deployed", "ddops status")
    return release


def _run(layout: Layout, release: Release, suite: str, settings: dict[str, Any], tell: Tell) -> dict[str, Any]:
    began = time.monotonic()
    try:
        evidence = _SUITES[suite](layout, release, settings, tell)
        problems = evidence.pop("problems", [])
    except GateFailed as error:
        evidence, problems = error.evidence, [f"{error.what}: {error.why}" if error.why else error.what]
    return {
        "suite": suite,
        "release": release.summary(),
        "passed": not problems,
        "problems": problems,
        "evidence": evidence,
        "seconds": round(time.monotonic() - began, 1),
    }


def judge(layout: Layout, release: Release, suite: str, settings: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Puts a suite to a trial, as a gate; returns its evidence, raises GateFailed for the first problem."""
    evidence = _SUITES[suite](layout, release, settings, tell)
    if problems := evidence.pop("problems", []):
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise GateFailed(f"{len(problems)} of its answers are not good", problems[0] + more, evidence=evidence)
    return evidence


def _smoke(_: Layout, release: Release, __: dict[str, Any], tell: Tell) -> dict[str, Any]:
    return smoke(service.engine_of(release), release.gates["smoke"], _answer(release))


def _lossless(layout: Layout, release: Release, _: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Against what this release answered when it was known-good; recorded now where it never was."""
    known = baseline.stored(layout, release, release.gates)
    recorded = known is None
    if known is None:
        tell("recording its answers: none are kept")
        known = recording.record(layout, release, release.gates, _answer(release), alone=False)
    found = lossless(service.engine_of(release), known["references"], release.gates["lossless"], _answer(release))
    return {**found, "recorded_now": recorded}


def _coding(_: Layout, release: Release, settings: dict[str, Any], tell: Tell) -> dict[str, Any]:
    return coding(service.engine_of(release), _asked(release, settings), _whole(release), tell)


def _garbage(_: Layout, release: Release, settings: dict[str, Any], tell: Tell) -> dict[str, Any]:
    least = release.gates["acceptance"]["min_accept_length"] if release.manifest["engine"]["speculates"] else None
    more = {**_asked(release, settings), "min_accept_length": least}
    return garbage(service.engine_of(release), more, _whole(release), tell)


def _load(_: Layout, release: Release, settings: dict[str, Any], tell: Tell) -> dict[str, Any]:
    of = release.gates["smoke"]
    more = {"question": of["questions"][0], "question_tokens": of["max_tokens"]}
    more["prompts"] = release.gates["lossless"]["prompts"]
    return load(service.engine_of(release), {**settings, **more}, _whole(release), tell)


def _asked(release: Release, settings: dict[str, Any]) -> dict[str, Any]:
    """Returns a suite's settings with what the profile adds to every question: that nothing is thought first, say."""
    return {**settings, "request": release.gates["smoke"]["questions"][0].get("request") or {}}


def _answer(release: Release) -> float:
    return float(release.deadlines["answer"])


def _whole(release: Release) -> float:
    """Seconds for a long answer: the suites ask for more tokens than a gate's question."""
    return float(release.deadlines["gates"])


_SUITES: dict[str, Callable[[Layout, Release, dict[str, Any], Tell], dict[str, Any]]] = {
    "smoke": _smoke,
    "lossless": _lossless,
    "coding": _coding,
    "garbage": _garbage,
    "load": _load,
}
