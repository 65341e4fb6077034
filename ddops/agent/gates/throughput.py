"""Throughput: tokens a second at concurrency 1, compared with known-good's.

Known-good and the trial are measured by this code, on this host, with the same prompts. What else runs on a host only
ever slows a run, so the best of several runs is compared, not their mean.
"""

from __future__ import annotations

from typing import Any

from ..engine import Engine
from ..errors import GateFailed, NotBetter
from ..sending import send
from .acceptance import flush


def measure(engine: Engine, settings: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Returns ``tok_s``, the best run's; ``runs``, each one's; ``quiet``, False where users were served meanwhile.

    A run decodes every prompt once, one after another; its figure is all tokens over the seconds from the asking to
    the last one. The time to the first token is in it: a reader that was kept waiting finds many tokens at once, and
    from the first of them on the engine would look faster than it is. Raises GateFailed for a stream that breaks off.
    """
    quiet, runs = flush(engine), []
    for _ in range(settings["repeats"]):
        runs.append(_run(engine, settings, timeout))
        quiet = flush(engine) and quiet  # which no engine does that has anybody else's request
    return {"tok_s": max(runs), "runs": runs, "quiet": quiet}


def _run(engine: Engine, settings: dict[str, Any], timeout: float) -> float:
    tokens, seconds = 0, 0.0
    for prompt in settings["prompts"]:
        stream = send(engine, prompt, settings["tokens"], timeout)
        if stream.error:
            raise GateFailed("a stream failed", stream.error)
        tokens += stream.parts[-1].tokens
        seconds += stream.parts[-1].at - stream.began
    return round(tokens / seconds, 2)


def throughput(
    engine: Engine, known_good: dict[str, Any] | None, settings: dict[str, Any], timeout: float, *, accept_slower: bool
) -> dict[str, Any]:
    """Compares with known-good's; raises NotBetter where more than ``tolerance`` is lost and nobody accepts that."""
    found = measure(engine, settings, timeout)
    evidence: dict[str, Any] = {**found, "known_good": known_good, "tolerance": settings["tolerance"]}
    if known_good is None:
        return evidence
    evidence["change"] = round(found["tok_s"] / known_good["tok_s"] - 1, 4)
    slower = found["tok_s"] < known_good["tok_s"] * (1 - settings["tolerance"])
    evidence["accepted_slower"] = slower and accept_slower
    if slower and not accept_slower:
        raise NotBetter(
            f"right but slower: {found['tok_s']:g} tok/s, {-evidence['change']:.0%} less than known-good",
            f"known-good has {known_good['tok_s']:g} tok/s at concurrency 1, {settings['tolerance']:.0%} may be lost",
            "--accept-slower promotes it all the same",
            evidence,
        )
    return evidence
