"""Makes a picture of a real run for the README.

    script -qec 'make demo' run.typescript
    python docs/picture.py run.typescript illegal-access docs/deploy-rolled-back.svg

The part that begins with the command holding the given word is taken, up to the next command, as the
terminal showed it in the end.
"""

import re
import sys
from html import escape
from pathlib import Path

COLUMNS, CELL, LINE, EDGE = 100, 8.43, 19, 18
COLOURS = {"32": "#7ee787", "31": "#ff7b72", "33": "#e3b341", "2": "#8b949e", "1": "#ffffff"}


def part(typescript: str, word: str) -> list[str]:
    """Returns the lines of one command, each as it was last drawn."""
    lines = [line.rstrip("\r").rpartition("\r\x1b[K")[2] for line in typescript.split("\n")]
    lines = [line.removeprefix("\x1b[K") for line in lines]
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ddops")]
    first = next(at for at in starts if word in lines[at])
    end = next((at for at in starts if at > first), len(lines))
    return [cut for line in lines[first:end] for cut in fold(line)]


def fold(line: str) -> list[str]:
    """Cuts a line where the terminal did; one with colours is never that long."""
    return [line] if "\x1b" in line or len(line) <= COLUMNS else [line[:COLUMNS], *fold(line[COLUMNS:])]


def draw(lines: list[str]) -> str:
    """Returns the lines as an SVG."""
    width, height = COLUMNS * CELL + 2 * EDGE, len(lines) * LINE + 2 * EDGE
    rows = [f'<text x="{EDGE}" y="{EDGE + LINE * (at + 0.75):g}">{spans(line)}</text>' for at, line in enumerate(lines)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" font-size="14" fill="#c9d1d9"\n'
        '  font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" xml:space="preserve">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


def spans(line: str) -> str:
    """Returns one line's text with its colours."""
    out = ""
    for code, text in re.findall(r"(?:\x1b\[(\d+)m)?([^\x1b]*)", line):
        if text:
            out += f'<tspan fill="{COLOURS[code]}">{escape(text)}</tspan>' if code in COLOURS else escape(text)
    return out


if __name__ == "__main__":
    source, wanted, target = sys.argv[1:]
    Path(target).write_text(draw(part(Path(source).read_bytes().decode(errors="replace"), wanted)))
