"""A host under watch: what its engine is told to do, and what the supervisor noted and told."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import httpx
import yaml

from ddops import resources

from .service_host import STATE, ServiceHost, wait_for

SUPERVISOR = "ddops-supervisor@lab.service"

# what the engine prints of a request, and of its steps
NEW = ("[2026-11-29 12:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 9, #running-req: 0, #queue-req: 0",)
LINE = "[2026-11-29 12:00:00 TP0] Decode batch, #running-req: 1, accept len: {:.2f}, cpu graph: False, #queue-req: 0"

DRILL = ("--drill", "illegal-access", "--drill-after", "2000")  # far more steps than gates and soak take


def log(served: ServiceHost, *lines: str) -> None:
    """Has the live engine print lines."""
    order(served, "log\n" + "\n".join(lines))


def incidents(served: ServiceHost) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (served.file(f"{STATE}/incidents.jsonl") or "").splitlines()]


def told(served: ServiceHost) -> list[dict[str, Any]]:
    """What the site's command was given."""
    return [json.loads(line) for line in (served.file("/run/told") or "").splitlines()]


def seen(served: ServiceHost) -> dict[str, Any]:
    """What the supervisor has noted of the engine under watch."""
    return json.loads(served.file("/run/ddops/lab/seen") or "{}")  # type: ignore[no-any-return]


def has_looked(served: ServiceHost) -> None:
    """Waits until the supervisor has gone through its rounds: each begins with a word to systemd."""

    def round_of() -> str:
        return served.show(SUPERVISOR, "WatchdogTimestampMonotonic")["WatchdogTimestampMonotonic"]

    for _ in range(3):
        before = round_of()
        wait_for(lambda b=before: round_of() != b, 20, "the watch looks")


def order(served: ServiceHost, what: str) -> None:
    """Has the live engine do something, as a user of the public port."""
    body = {"messages": [{"role": "user", "content": f"now: {what}"}]}
    assert httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=60).status_code == 200


def reach_the_drill(served: ServiceHost) -> None:
    """Has the live engine take more verify steps than its drill waits for, as a user of the public port."""
    body = {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 5000}}
    with contextlib.suppress(httpx.HTTPError):
        httpx.post(f"{served.url}/generate", json=body, timeout=20)


def deploy_with(served: ServiceHost, folder: Path, budget: int, *more: str, answer: float = 30, **policy: Any) -> None:
    """Promotes a release whose profile has another policy, and another deadline for one answer."""
    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    values["watch"].update(policy)
    values["deadlines"]["answer"] = answer
    path = folder / f"own-{budget}.yaml"
    path.write_text(yaml.safe_dump(values))
    served.profile = str(path)
    ran = served.deploy(budget, *more)
    assert ran.code == 0, ran


def tell(host: ServiceHost, **ways: Any) -> None:
    """Sets the site's notify."""
    site = Path(host.environment["DDOPS_SITE"])
    site.write_text(yaml.safe_dump({**yaml.safe_load(site.read_text()), "notify": ways}))
