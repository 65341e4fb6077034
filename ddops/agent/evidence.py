"""What this host has seen of a combination: profile, stack, algorithm, budget, graphs, max running.

A combination that was rolled back for its own fault is proven bad on the stack that it ran on; on another overlay,
SGLang, environment, model, drafter or driver that is stale: a warning with what has changed. What is known-good is
never derived from it.
"""

from __future__ import annotations

from typing import Any

from .errors import EngineFault, GateFailed

# a trial that failed in one of these steps is bad itself, not its surroundings or somebody's mind
_PROOF_OF_BAD = (
    *("load", "ready", "smoke", "lossless", "acceptance", "throughput", "measure", "open", "soak"),
    *("eval-coding", "eval-garbage", "eval-load"),
)
# only these reasons are about the release: a gate that it failed, a fault of its engine
_ITS_OWN = (GateFailed.code, EngineFault.code)
# classes of faults that say something of the machine: any release would have met them
OF_THE_HOST = frozenset(
    (
        *("driver_mismatch", "gpu_unavailable", "gpu_memory_error", "gpu_power", "gpu_fallen_off_bus"),
        *("xid_gpu_memory", "xid_48_double_bit_ecc", "xid_63_row_remap", "xid_64_row_remap_failed"),
        *("xid_nvlink", "xid_74_nvlink", "xid_c2c", "nvswitch_error", "pcie_error", "machine_check"),
        *("disk_full", "disk_error", "network_storage", "host_memory", "host_limits", "host_oom_killer"),
        *("port_in_use", "permission_denied", "journald_rate_limit", "journal_damaged", "journal_lost"),
    )
)
SETTINGS = ("profile", "budget", "graphs")
BELOW = ("sglang", "environment", "model", "drafter", "driver")
STACK = ("sglang", "overlay", "environment", "model", "drafter", "driver")


def combination(summary: dict[str, Any], stack: dict[str, Any] | None) -> dict[str, Any]:
    """Returns what evidence is told by, from a release's summary and the stack that is below it.

    With another topk an algorithm drafts another tree: it counts as another one, ``DDTREE k4``.
    """
    found = {key: summary.get(key) for key in (*SETTINGS, "algorithm", "max_running", "overlay")}
    if isinstance(topk := summary.get("topk"), int):
        found["algorithm"] = f"{found['algorithm']} k{topk}"
    below = stack or summary.get("stack") or {}
    return found | {key: below.get(key) for key in BELOW}


def verdict(outcome: dict[str, Any]) -> str | None:
    """Returns what an operation's outcome says of its combination, as ``judged``; nothing of a drill."""
    on_purpose = outcome.get("kind") != "deploy" or (outcome.get("release") or {}).get("drill")
    return None if on_purpose else judged(outcome)


def judged(outcome: dict[str, Any]) -> str | None:
    """Returns what a deploy's outcome says of what was tried: good, measured, bad, slower; None: nothing.

    What a sweep has measured passed the gates, and had no users: that takes no proof away.
    """
    if outcome["outcome"] == "promoted":
        return "good"
    if outcome["outcome"] == "measured":
        return "bad" if any(row.get("failed") for row in outcome.get("measured") or ()) else "measured"
    if outcome["outcome"] == "not-better":
        return "slower"  # it passed every gate, so it is not bad, and nobody wants it, so it is not good
    if not _blames_the_release(outcome):
        return None
    failed = [step["step"] for step in outcome.get("steps", []) if not step["ok"]]
    bad = outcome["outcome"] in ("rolled-back", "rollback-failed") and failed and failed[0] in _PROOF_OF_BAD
    return "bad" if bad else None


def words(outcome: dict[str, Any]) -> str:
    """Returns how an operation ended, in a few words."""
    if outcome["outcome"] == "measured":
        failed = sum(int(row.get("failed") or 0) for row in outcome.get("measured") or ())
        return f"{failed} requests failed while it was measured" if failed else "measured"
    return str((outcome.get("reason") or {}).get("what") or outcome["outcome"])


def max_running(brief: dict[str, Any]) -> int | None:
    """Returns how many requests ran at once, of what a history says of an operation or an evaluation."""
    found = brief.get("max_running", (brief.get("release") or {}).get("max_running"))
    return found if isinstance(found, int) else None


def drafter(brief: dict[str, Any]) -> str | None:
    """Returns what a history's entry says of the drafter's files: their digest, '' where there was no drafter."""
    found = (brief.get("stack") or (brief.get("release") or {}).get("stack") or {}).get("drafter")
    return found if isinstance(found, str) else None


def _blames_the_release(outcome: dict[str, Any]) -> bool:
    """Says whether what ended a trial was its own, not the machine's, an operator's or the supervisor's."""
    seen = (*(outcome.get("faults") or ()), *(outcome.get("noticed") or ()))
    of_the_host = any(fault.get("fault") in OF_THE_HOST for fault in seen)
    return (outcome.get("reason") or {}).get("code") in _ITS_OWN and not of_the_host


def changed(was: dict[str, Any], now: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what of a stack is not as it was: ``name``, ``was``, ``now``; None where it is not known."""
    return [{"name": key, "was": was.get(key), "now": now.get(key)} for key in STACK if _differs(key, was, now)]


def _differs(key: str, was: dict[str, Any], now: dict[str, Any]) -> bool:
    """A drafter counts where both had one: without it is another algorithm, and an earlier ddops did not look."""
    if key == "drafter" and not (was.get(key) and now.get(key)):
        return False
    return bool(was.get(key) != now.get(key))


def newest(entries: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """Returns the newest entry of each verdict on one thing on one stack, the newest first, and how many there are."""
    kept: dict[tuple[Any, ...], tuple[dict[str, Any], int]] = {}
    for entry in reversed(entries):  # they come with the oldest first
        if entry["verdict"] is None:
            continue
        about = (
            *(entry[key] for key in (*SETTINGS, *STACK, "algorithm", "max_running", "verdict", "kind")),
            subject(entry),
        )
        first, times = kept.get(about, (entry, 0))
        kept[about] = (first, times + 1)
    return list(kept.values())


def subject(entry: dict[str, Any]) -> str:
    """Returns what was tried: ``deploy``, or the suite of an evaluation."""
    return f"eval {entry['verdicts'][0]['gate']}" if entry["kind"] == "eval" else str(entry["kind"])


def of(entries: list[dict[str, Any]], wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what the ledger proves of a profile, budget and graphs, the newest first.

    ``other`` names what was not as in ``wanted``, ``changed`` what of the stack has changed since.
    """
    same = [entry for entry in entries if all(entry[key] == wanted.get(key) for key in SETTINGS)]
    found = []
    for entry, times in newest(same):
        since = changed(entry, wanted)
        other = [name for name in ("algorithm", "max_running") if entry[name] != wanted.get(name)]
        found.append(
            {
                **{key: entry[key] for key in ("release", "algorithm", "what", "ended")},
                "outcome": entry["verdict"],
                "subject": subject(entry),
                "times": times,
                "other": [name.replace("_", " ") for name in other] + [each["name"] for each in since],
                "changed": since,
            }
        )
    return found


def proven_bad(entries: list[dict[str, Any]], wanted: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the newest proof on this very stack where it is a bad one, None otherwise."""
    proofs = [entry for entry in of(entries, wanted) if not entry["other"] and entry["outcome"] in ("good", "bad")]
    return proofs[0] if proofs and proofs[0]["outcome"] == "bad" else None
