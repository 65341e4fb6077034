"""Print the table of pins for the SGLang that is installed here."""

from __future__ import annotations

import sys

from .architecture import BACKEND
from .cpu import plan as cpu
from .ddtree import plan as ddtree
from .drills import garbage, illegal_access
from .hooks import source_sha256
from .processes import DETOKENIZER, MAIN, SCHEDULER


def main() -> int:
    # SGLang's CPU modules cannot be imported before the stand-in is there
    cpu.activate()
    targets = [MAIN, SCHEDULER, DETOKENIZER, illegal_access.TARGET, garbage.TARGET, BACKEND, cpu.ATTENTION, *cpu.BASES]
    targets += [cpu.DRAFTER_ATTENTION, ddtree.DRAFTER_FORWARD, *ddtree.BASES]
    for target in sorted(targets):
        sys.stdout.write(f'    "{target}":\n        "{source_sha256(target)}",\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
