"""The command line that all benchmarks share, and the host that they run on."""

from __future__ import annotations

import argparse
import compileall
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ddops.lab.config import LabConfig
from ddops.lab.lab import Lab
from ddops.lab.options import Disk
from tests.lab import stub_host
from tests.lab.service_host import ServiceHost

from .figures import Figure, show

Measure = Callable[[ServiceHost, int], list[Figure]]


def main(title: str, measure: Measure, repeats: int) -> None:
    """Boots a host whose release 1 is known-good, measures on it and prints; ``repeats`` is the default."""
    asked = arguments(title, repeats)
    compiled(Path(__file__).parents[1])
    with served() as host:
        show(title, measure(host, asked.repeats), as_json=asked.json)


def arguments(title: str, repeats: int) -> argparse.Namespace:
    """Returns what every benchmark is told: ``repeats`` and ``json``."""
    return parser(title, repeats).parse_args()


def parser(title: str, repeats: int) -> argparse.ArgumentParser:
    """Returns what reads that; a benchmark may add to it."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--repeats", type=int, default=repeats, metavar="N", help=f"how often; {repeats} unless said")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def compiled(checkout: Path) -> None:
    """Compiles a checkout's ddops, as pip does where it is installed: a client must not do it at each start."""
    compileall.compile_dir(checkout / "ddops", quiet=1)


@contextmanager
def served(disk: Disk | None = None) -> Iterator[ServiceHost]:
    """A lab host of its own in the network 10.213.$DDOPS_BENCH_NET.0/24 (79), gone at the end."""
    net = f"10.213.{os.environ.get('DDOPS_BENCH_NET', '79')}"
    with tempfile.TemporaryDirectory(prefix="ddops-bench-") as folder:
        here = Path(folder)
        here.chmod(0o755)
        lab = Lab(replace(LabConfig.from_environment(), state=here / "lab", net=net, netns=""))
        (here / "stub").mkdir()
        try:
            with stub_host.running(lab, stub_host.make_folder(here / "stub"), here / "site.yaml", disk) as host:
                for ran in (host.ddops("adopt", "sglang.service"), host.deploy(8)):
                    if ran.code:
                        raise SystemExit(f"the host could not be made ready: {ran}")
                yield host
        finally:
            lab.down(all=True)
