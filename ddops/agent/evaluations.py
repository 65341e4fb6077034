"""What ``ddops eval`` found, kept for the ledger: a file for each."""

from __future__ import annotations

import os
from typing import Any

from . import durable, entries, stack, steplog
from .errors import AgentError
from .layout import Layout
from .releases import Release


def keep(layout: Layout, release: Release, result: dict[str, Any], by: str) -> str:
    """Keeps a suite's result with the stack that it ran on; returns why it could not be, '' where it is kept.

    Its numbers and problems are kept; what the model wrote is not.
    """
    engine = release.manifest["engine"]
    try:
        below = stack.describe(engine["python"], engine["model"], engine.get("drafter"))
        ended = steplog.now()
        durable.make_directory(layout.evaluations, 0o700)
        name = f"{ended.translate({ord(c): None for c in '-:.'})}-{result['suite']}-{os.getpid()}.json"
        short = {**result, "evidence": entries.figures(result["evidence"])}
        durable.write_json(layout.evaluations / name, {**short, "stack": below, "ended": ended, "by": by})
    except KeyError:
        return f"release {release.number} does not say what it runs on"
    except AgentError as error:
        return f"{error.what}: {error.why}"
    except OSError as error:
        return f"{error.filename or layout.evaluations}: {error.strerror}"
    return ""
