"""A service that DDTREE drafts for: chosen by the profile, its settings read back, compared by tokens alone.

The engine is the scripted one; the tree itself is tested inside the real SGLang (tests/overlay).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ddops import resources

from .service_host import STATE, ServiceHost

pytestmark = pytest.mark.lab

DRAFTER = "/srv/drafter"


@pytest.fixture
def drafted(adopted: ServiceHost, tmp_path: Path) -> ServiceHost:
    """The host with a drafter in its site, and a lab profile that would rather have DDTREE."""
    site = Path(adopted.environment["DDOPS_SITE"])
    site.write_text(yaml.safe_dump({**yaml.safe_load(site.read_text()), "drafter": DRAFTER}))
    adopted.on("sh", "-c", f"mkdir {DRAFTER}; echo {{}} > {DRAFTER}/config.json")
    values = yaml.safe_load((resources.folder("profiles") / "lab.yaml").read_text())
    tree = {"algorithm": "DDTREE", "brought_by": "overlay", "budgets": [7, 64], "drafter": True, "topk": 8}
    values["speculation"].insert(0, {**tree, "arguments": {}})
    adopted.profile = str(tmp_path / "own.yaml")
    Path(adopted.profile).write_text(yaml.safe_dump(values))
    return adopted


def test_ddtree_is_chosen_read_back_and_compared_by_its_tokens(drafted: ServiceHost) -> None:
    first = drafted.deploy(8)
    assert first.code == 0, first
    evidence = {v["gate"]: v["evidence"] for v in first.document["verdicts"]}
    assert evidence["ready"]["effective"]["speculative_algorithm"] == "DDTREE"
    assert evidence["ready"]["overlay"][-1]["ddtree"]["width"] == 9
    assert evidence["ready"]["overlay"][0]["settings"]["ddtree"] == {"budget": 8, "topk": 8}
    assert evidence["lossless"]["by_tokens_alone"] == 0, "the adopted unit does not speculate and tells them"
    assert f"--speculative-draft-model-path\0{DRAFTER}" in drafted.on(
        "sh", "-c", f"cat /proc/{drafted.main_pid('lab-0001.service')}/cmdline"
    )

    second = drafted.deploy(12, "--topk", "6")
    assert second.code == 0, second
    evidence = {v["gate"]: v["evidence"] for v in second.document["verdicts"]}
    assert (evidence["lossless"]["by_tokens_alone"], evidence["lossless"]["tokens"]) == (6, 144)
    assert evidence["ready"]["overlay"][0]["settings"]["ddtree"] == {"budget": 12, "topk": 6}
    assert '"topk": 6' in drafted.on("cat", f"{STATE}/releases/0002/manifest.json")

    drafted.script(w17={"wrong_tokens": True})
    wrong = drafted.deploy(16)
    assert wrong.code == 3, wrong
    assert [step["step"] for step in wrong.document["steps"] if not step["ok"]] == ["lossless"]
    assert "more near-ties than rounding makes" in wrong.document["reason"]["what"]

    drafted.script(w17={"topk": 3})
    other = drafted.deploy(16, "--force")
    assert other.code == 3, other
    assert "DDTREE has {'topk': 3} in effect" in other.document["reason"]["what"]
    assert drafted.pointer("known-good") == 2
    assert drafted.ask() == "Paris"


def test_a_drafter_that_is_gone_or_another_is_said_before_anything_is_stopped(drafted: ServiceHost) -> None:
    site = Path(drafted.environment["DDOPS_SITE"])
    here = site.read_text()
    site.write_text(here.replace(DRAFTER, "/srv/none"))
    pid = drafted.main_pid("sglang.service")
    ran = drafted.deploy(8)
    assert (ran.code, ran.document["reason"]["what"]) == (5, "/srv/none is not on this host"), ran
    assert drafted.main_pid("sglang.service") == pid

    site.write_text(here)
    assert drafted.deploy(8).code == 0
    pid = drafted.main_pid("lab-0002.service")
    drafted.on("mv", DRAFTER, "/srv/aside")
    for ran in (drafted.deploy(12), drafted.ddops("rollback")):
        assert ran.code == 5, ran
        assert f"lab-0002.service could not be started: {DRAFTER} is not there" in ran.document["reason"]["what"]

    drafted.on("sh", "-c", f"mv /srv/aside {DRAFTER}; echo '{{ }}' > {DRAFTER}/config.json")
    ran = drafted.deploy(12)
    assert (ran.code, ran.document["reason"]["what"]) == (5, "the drafter is not what known-good was promoted on"), ran
    assert drafted.main_pid("lab-0002.service") == pid
