"""How the attention of the verified rows is cut: what one block takes, and into how many parts a prefix goes."""

from __future__ import annotations

from typing import NamedTuple

import triton

MOST_PARTS = 31  # with the tree's own 32, which one program adds up


class Tile(NamedTuple):
    """Of one block: width of q and k without position (``d``) and of it (``pe``), of v, rows, columns, its warps, and
    how many tiles of the prefix are under way at once."""

    d: int
    pe: int
    dv: int
    rows: int
    columns: int
    warps: int
    stages: int = 1


# rows, columns, warps, stages by the width of q and k: among the best of benchmarks/device/tiles.py on an H200, for MLA
# the one that is best at long contexts
_HOPPER = {128: (64, 128, 4, 2), 576: (64, 32, 8, 2)}


def tile_of(stock: Tile, capability: int) -> Tile:
    """The tile for a GPU of that major capability: measured where it could be, else SGLang's for its prefill kernel,
    which is known to fit there."""
    wide = stock.d + stock.pe
    measured = _HOPPER.get(max(wide, 128)) if capability == 9 else None
    return Tile(stock.d, stock.pe, stock.dv, *measured) if measured else stock


def parts_of(blocks: int, requests: int, processors: int) -> int:
    """Parts of a prefix: so many that all of the GPU's processors have a block, ``blocks`` being those of a request.

    A batch counts as the next power of two: one that a graph pads to that is summed as in the graph.
    """
    return max(1, min(MOST_PARTS, processors // (blocks * triton.next_power_of_2(requests))))
