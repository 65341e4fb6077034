"""The commands in the runbooks are run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from .service_host import ServiceHost

pytestmark = pytest.mark.lab

RUNBOOKS = Path(__file__).parents[2] / "docs/runbooks"


def blocks(page: str) -> list[tuple[bool, str]]:
    """Returns the shell blocks of a page: whether each runs on the host, and its text."""
    found = re.findall(r"^ *```sh( on-host)?\n(.*?)^ *```$", (RUNBOOKS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [(bool(on_host), text) for on_host, text in found]


@pytest.mark.parametrize("page", sorted(p.name for p in RUNBOOKS.glob("*.md")))
def test_every_command_of_a_page_works(served: ServiceHost, page: str, tmp_path: Path) -> None:
    served.script(w13={"wrong": True})
    assert served.deploy(12).code == 3
    site = Path(served.environment["DDOPS_SITE"])
    values = yaml.safe_load(site.read_text())
    site.write_text(yaml.safe_dump({**values, "hosts": {"lab": values["hosts"][served.name]}}))
    environment = {**served.environment, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}

    commands = blocks(page)
    assert len(commands) >= 3
    assert {on_host for on_host, _ in commands} == {True, False}
    for on_host, text in commands:
        if on_host:
            done = served.lab.ssh(served.name, "sh", "-e", "-c", f"'{text}'" if "'" not in text else f'"{text}"')
        else:
            done = subprocess.run(
                ["sh", "-e", "-c", text], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=120, check=False,
            )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert done.stdout.strip(), f"{text} said nothing"
    assert served.ask() == "Paris"
