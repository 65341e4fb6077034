"""Which tile the attention of a verification wants on this GPU: the best ones, and the time of each case with them.

    PYTHONPATH=<overlay> python tiles.py

A tile's figure is the geometric mean over the cases of its time against the best tile's time in that case.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import sys
from typing import Any

import torch
from attention import GQA, MLA, STOCK, Shape, processors, rows_of
from ddops_overlay.ddtree.ops import tree_attention
from ddops_overlay.ddtree.ops.attention_tile import Tile
from kernels import microseconds, say
from triton.errors import TritonError

CASES = [(1, 9, 300), (1, 17, 300), (1, 17, 8000), (8, 17, 300), (8, 17, 4000), (8, 65, 300), (8, 65, 4000)]
WAVES = (1, 2)  # blocks a processor


# rows, columns, warps, stages; MLA's sums fill the registers of eight warps
CHOICES = {MLA: ((16, 32, 64), (16, 32, 64), (8,), (1, 2, 3)), GQA: ((64, 128), (64, 128), (4, 8), (1, 2, 3))}


def tiles(shape: Shape) -> list[Tile]:
    d, pe, dv = STOCK[shape][:3]
    found = [Tile(d, pe, dv, *rest) for rest in itertools.product(*CHOICES[shape])]
    # what one block keeps in shared memory: the rows of q, and the columns of k that are under way
    return [t for t in found if 2 * (d + pe) * (t.rows + t.stages * t.columns) <= 224 << 10]


def compiled(what: tuple[Shape, Tile]) -> bool:
    """Compiles a tile into Triton's cache, in both of its forms; False where the GPU cannot have it."""
    shape, tile = what
    try:
        for width, many in ((9, 1 << 20), (17, 1 << 20), (65, 1 << 20), (17, 1), (65, 1)):
            tree_attention.kernel(*rows_of(shape, [300], width, torch.bfloat16), tile, many)
        torch.cuda.synchronize()
    except (TritonError, RuntimeError):  # the compiler's and the driver's ways to say that it does not fit
        return False
    return True


def main() -> None:
    torch.manual_seed(0)
    todo = [(shape, tile) for shape in (MLA, GQA) for tile in tiles(shape)]
    with multiprocessing.get_context("spawn").Pool(14) as pool:
        fits = pool.map(compiled, todo, chunksize=1)
    say(f"{sum(fits)} of {len(todo)} tiles fit")
    for name, shape in (("MLA", MLA), ("GQA", GQA)):
        inputs = {case: rows_of(shape, [case[2]] * case[0], case[1], torch.bfloat16) for case in CASES}
        times: dict[tuple[Tile, int], dict[Any, float]] = {}
        for (of, tile), fit in zip(todo, fits, strict=True):
            for waves in WAVES if fit and of == shape else ():
                many = processors() * waves
                times[tile, waves] = {
                    case: microseconds(lambda a=(*given, tile, many): tree_attention.kernel(*a), 5, 5)[0]
                    for case, given in inputs.items()
                }
        best = {case: min(found[case] for found in times.values()) for case in CASES}
        worse = {
            key: math.exp(sum(math.log(found[case] / best[case]) for case in CASES) / len(CASES))
            for key, found in times.items()
        }
        for key in sorted(worse, key=lambda key: worse[key])[: int(sys.argv[1]) if len(sys.argv) > 1 else 12]:
            figures = "  ".join(f"{time:.1f}" for time in times[key].values())
            say(f"{name} {tuple(key[0][3:])} waves {key[1]}: {worse[key]:.2f}   {figures}")
        say(f"{name} best of each case  {'  '.join(f'{time:.1f}' for time in best.values())}")


if __name__ == "__main__":
    main()
