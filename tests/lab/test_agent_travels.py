"""The agent is sent to a host once, and again where it is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from .service_host import ServiceHost

pytestmark = pytest.mark.lab

AGENTS = "/run/ddops-agents"
AGENT_BYTES = 40_000  # less than an agent, more than a connection without it


def sent_by_history(host: ServiceHost) -> int:
    """Returns the bytes that `ddops history` sends to the host, counted on the host's own link."""
    counter = Path("/sys/class/net", host.lab.host(host.name).spec.link, "statistics/tx_bytes")
    before = int(counter.read_text())
    ran = host.ddops("history")
    assert ran.code == 0, ran.stderr
    return int(counter.read_text()) - before


def test_a_host_that_has_the_agent_is_not_sent_it_again(adopted: ServiceHost) -> None:
    assert sent_by_history(adopted) < AGENT_BYTES

    adopted.on("rm", "-r", AGENTS)

    assert sent_by_history(adopted) > AGENT_BYTES
    assert sent_by_history(adopted) < AGENT_BYTES
    compiled = adopted.on("sh", "-c", f"ls {AGENTS}/*/agent/__pycache__/ledger.*.pyc").split()
    assert len(compiled) == 1
    assert adopted.on("stat", "-c", "%U %a", AGENTS).split() == ["root", "700"]
