"""A release is promoted for a reason: not slower than known-good, and through the suites that its profile asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ddops import deploy as operation
from ddops import exit_codes, resources, settings
from ddops.cli import target

from .service_host import ServiceHost

pytestmark = pytest.mark.lab

DEPLOY = 3  # the operation after the adoption and the first deploy


def test_a_release_that_is_right_but_slower_is_not_promoted_unless_that_is_accepted(served: ServiceHost) -> None:
    served.script(w13={"pace_s": 0.05}, w9={"pace_s": 0.002})
    ran = served.deploy(12)
    assert (ran.code, ran.document["outcome"]) == (8, "not-better"), ran
    assert [step["step"] for step in ran.document["steps"] if not step["ok"]] == ["throughput"]
    assert ran.document["reason"]["code"] == "not-better"
    evidence = ran.document["verdicts"][-1]["evidence"]
    # 33 tokens, 2 in each part after the first, a part each 0.05 s
    assert 20 < evidence["tok_s"] <= 42, "a busy machine is slower, none is faster"
    assert evidence["known_good"]["tok_s"] > 5 * evidence["tok_s"]
    assert evidence["known_good"]["quiet"] is True
    assert served.active("lab-0002.service") == "inactive"
    assert served.pointer("known-good") == 1
    assert served.boots() == "lab-0001.service"
    assert served.ask() == "Paris"

    accepted = served.deploy(12, "--accept-slower")
    assert (accepted.code, accepted.document["outcome"]) == (0, "promoted"), accepted
    assert accepted.document["verdicts"][-1]["evidence"]["accepted_slower"] is True
    assert served.pointer("known-good") == 3

    faster = served.deploy(8)
    assert faster.code == 0, faster
    assert faster.document["verdicts"][-1]["evidence"]["change"] > 1


def test_a_trial_must_pass_the_suites_that_its_profile_asks_for(served: ServiceHost, tmp_path: Path) -> None:
    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    values["gates"]["suites"] = ["load", "garbage", "coding"]
    served.profile = str(tmp_path / "own.yaml")
    Path(served.profile).write_text(yaml.safe_dump(values))

    good = served.deploy(12)
    assert good.code == 0, good
    passed = {v["gate"]: v["evidence"] for v in good.document["verdicts"] if v["passed"]}
    assert list(passed)[-3:] == ["eval-load", "eval-garbage", "eval-coding"]
    assert passed["eval-load"]["streams"] == 48
    assert (passed["eval-coding"]["right"], passed["eval-coding"]["of"]) == (0, 21)

    served.script(w17={"answers": {"bread": "!" * 200}})
    bad = served.deploy(16)
    assert bad.code == 3, bad
    assert [step["step"] for step in bad.document["steps"] if not step["ok"]] == ["eval-garbage"]
    assert "entropy 0 bits" in bad.document["reason"]["why"]
    assert served.pointer("known-good") == 2
    assert served.ask() == "Paris"


def test_a_trial_that_is_to_be_measured_sees_no_user_and_leaves_no_trace(
    served: ServiceHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.script(w13={"pace_s": 0.01})
    for name, value in served.environment.items():
        monkeypatch.setenv(name, value)
    effective = settings.resolve("lab", None, "stub", settings.Asked(budget=12))
    name, entry, site = effective.place()
    connect = target.connector(name, entry, "lab")
    measure = {"concurrency": [1, 3], "requests": 4, "tokens": 41, "repeats": 2}
    asked = operation.Request(effective.asked, measure=measure)
    agent = connect()
    events: list[dict[str, Any]] = []
    outcome = operation.run(agent, connect, operation.plan(agent, effective.profile, site, entry, asked), events.append)

    assert outcome["outcome"] == "measured", outcome["reason"]
    assert exit_codes.of_outcome("deploy", outcome) == 0
    one, three = outcome["measured"]
    assert (one["concurrency"], three["concurrency"]) == (1, 3)
    assert (one["failed"], one["errors"], len(one["tok_s_runs"])) == (0, [], 2)
    assert one["accept_length"] == three["accept_length"] == 2
    # 40 tokens after the first, 2 in each part, a part each 0.01 s
    assert 0 < one["stream_tok_s"] <= 210
    assert three["tok_s"] > 1.5 * one["tok_s"]
    assert not served.began("open", DEPLOY), "no user ever reached it"
    assert not served.began("soak", DEPLOY)
    assert [served.pointer("known-good"), served.pointer("live"), served.boots()] == [1, 1, "lab-0001.service"]
    assert served.active("lab-0002.service") == "inactive"
    assert served.ask() == "Paris"
