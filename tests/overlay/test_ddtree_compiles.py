"""The attention of a verification is compiled for GPUs that are not here: it must fit their shared memory.

That a kernel compiles says nothing of its results: those are compared on the GPU that was at hand (docs/ddtree.md).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed here: run with the engine's Python (see conftest)")
triton = pytest.importorskip("triton")
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]

# in a process of its own: the kernels of this one are defined for the interpreter
_COMPILE = """
import json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from ddops_overlay.ddtree.ops import tree_attention
from ddops_overlay.ddtree.ops.attention_tile import Tile, tile_of

arch, heads, *stock = json.loads(sys.argv[1])
tile = tile_of(Tile(512, 64, 512, *stock), arch // 10)
kernel = tree_attention._part_kernel
constants = dict(
    N=17, GROUP=heads, KV=1, LEAST=128, DQ=576, DV=512, D=512, PE=64, BLOCK_DV=512,
    ROWS=tile.rows, COLUMNS=tile.columns, SHARED=True, ALONE=False,
)
types = {"kv_indptr": "*i32", "kv_indices": "*i64", "mask_indptr": "*i64", "mask": "*u8", "scale": "fp32"}
types |= dict.fromkeys(("q", "k", "v", "k_pool", "v_pool", "out"), "*bf16")
types |= dict.fromkeys(("sums", "weights"), "*fp32") | dict.fromkeys(constants, "constexpr")
# as at a launch: pointers and strides are multiples of 16, without which nothing is copied in the background
aligned = {
    (i,): [["tt.divisibility", 16]]
    for i, name in enumerate(kernel.arg_names)
    if name not in constants and name not in ("all_rows", "parts", "scale")
}
made = triton.compile(
    ASTSource(kernel, {name: types.get(name, "i32") for name in kernel.arg_names}, constants, aligned),
    target=GPUTarget("cuda", arch, 32),
    options={"num_warps": tile.warps, "num_stages": tile.stages},
)
assert made.asm["cubin"]
print(made.metadata.shared)
"""


def shared_memory(arch: int, heads: int, tile: tuple[int, int, int], cache: Path) -> int:
    """Bytes that a block keeps there, for MLA with so many heads on a rank; ``tile`` is SGLang's."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": str(ROOT / "kernels_patch"), "TRITON_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", _COMPILE, json.dumps([arch, heads, *tile])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


@pytest.mark.parametrize(("profile", "arch"), [("b300", 103), ("rtx-pro-6000", 120)])
def test_it_fits_the_gpus_of_the_profiles(profile: str, arch: int, tmp_path: Path) -> None:
    """Kimi K2.6 on eight GPUs has eight heads a rank; the tile is the one that each rank proves SGLang to have."""
    values = yaml.safe_load((ROOT / f"profiles/{profile}.yaml").read_text())
    tile = values["overlay"]["verify_tile"]
    assert values["hardware"]["arch"] == f"sm_{arch}"
    found = shared_memory(arch, 8, (tile["queries"], tile["keys"], tile["warps"]), tmp_path)
    assert found <= values["hardware"]["shared_memory_bytes"]


def test_it_fits_an_h200_in_the_tile_that_was_measured(tmp_path: Path) -> None:
    assert shared_memory(90, 16, (32, 64, 8), tmp_path) <= 232448
