"""Memory and CPU of a supervisor that has nothing to do: known-good serves, no operation is under way."""

from __future__ import annotations

import time

from tests.lab.service_host import ServiceHost

from .command import main
from .figures import Figure

TITLE = "the supervisor at rest"
UNIT = "ddops-supervisor@lab.service"
_READ = """
import os, sys
pid = sys.argv[1]
fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
print((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
for line in open(f"/proc/{pid}/smaps_rollup"):
    if line.startswith(("Rss:", "Pss:")):
        print(line.split()[1])
"""


def measure(host: ServiceHost, repeats: int, seconds: float = 10.0) -> list[Figure]:
    """Looks at it from the host's /proc at the end of each of ``repeats`` windows of so many ``seconds``."""
    cpu, rss, pss = [], [], []
    spent, at = _look(host)[0], time.monotonic()
    for _ in range(repeats):
        time.sleep(seconds)  # nothing is to happen: that is what is measured
        now, rss_mb, pss_mb = _look(host)
        moment = time.monotonic()
        cpu.append(100 * (now - spent) / (moment - at))
        spent, at = now, moment
        rss.append(rss_mb)
        pss.append(pss_mb)
    return [
        Figure("resident memory (RSS)", "MB", rss, 30),
        Figure("its own share of it (PSS)", "MB", pss),
        Figure("CPU", "% of one", cpu, 1),
    ]


def _look(host: ServiceHost) -> tuple[float, float, float]:
    """Returns CPU seconds so far, RSS and PSS in MB (10^6 bytes)."""
    cpu, rss, pss = host.on("python3", "-c", _READ, str(host.main_pid(UNIT))).split()
    return float(cpu), int(rss) * 1.024e-3, int(pss) * 1.024e-3


if __name__ == "__main__":
    main(TITLE, measure, 6)
