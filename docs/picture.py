"""Makes a picture of a real run for the README.

    script -qec 'make demo' run.typescript
    python docs/picture.py run.typescript illegal-access docs/deploy-rolled-back.svg

The part that begins with the command holding the given word is taken, up to the next command, as the
terminal showed it in the end.
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 100


def part(typescript: str, word: str) -> list[str]:
    """Returns the lines of one command, each as it was last drawn."""
    lines = [line.rstrip("\r").rpartition("\r\x1b[K")[2] for line in typescript.split("\n")]
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ddops")]
    first = next(at for at in starts if word in lines[at])
    end = next((at for at in starts if at > first), len(lines))
    return [re.sub(r"\x1b\[K", "", line) for line in lines[first:end]]


def draw(lines: list[str], title: str) -> str:
    """Returns the lines as an SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="standard")
    for line in lines:
        console.print(Text.from_ansi(line), overflow="fold", soft_wrap=False)
    return console.export_svg(title=title)


if __name__ == "__main__":
    source, wanted, target = sys.argv[1:]
    Path(target).write_text(draw(part(Path(source).read_text(errors="replace"), wanted), "ddops"))
