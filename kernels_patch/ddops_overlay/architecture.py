"""The machine is the one that the release was rendered for: GPU architecture, and the tile of the verify kernel.

SGLang chooses the tile of its Triton extend kernel by the device's capability:
`_get_block_sizes_for_extend_attention(Lq, Lv)`, MLA having Lq 576 and Lv 512. DDTREE's own kernel takes it over, but on
sm_90, where a better one was measured (`ddtree/ops/tree_attention.py`). Each rank looks once its Triton backend stands:
earlier, the question itself would make a CUDA context on the wrong device. It says

    {"ddops_architecture": {"arch": "sm_103", "verify_tile": [16, 64, 8], "release": "kimi-0002", "ok": true}}

and ends the process where that is not what was asked for: a tile that fits one machine's shared memory fails, or is
slow, on another.
"""

from __future__ import annotations

from typing import Any

from .hooks import Hook
from .refuse import refuse
from .say import say
from .settings import Settings

BACKEND = "sglang.srt.layers.attention.triton_backend.TritonAttnBackend.__init__"
_MLA = (576, 512)
_state: dict[str, Any] = {"said": False}


def hook(settings: Settings) -> Hook:
    """The hook that looks, for settings that name an architecture."""
    _state.update(settings=settings, said=False)
    return Hook(BACKEND, "after", _backend_stands)


def find_problem(settings: Settings, arch: str, tile: list[int]) -> str:
    """What differs from the settings, or nothing."""
    if arch != settings.arch:
        return f"the GPU is {arch}, the release is for {settings.arch}"
    if settings.verify_tile is not None and tile != settings.verify_tile:
        return f"SGLang verifies in tiles of {tile}, the release is for {settings.verify_tile}"
    return ""


def _backend_stands(_result: Any, *_args: Any, **_kwargs: Any) -> None:
    if _state["said"]:
        return
    _state["said"] = True
    settings: Settings = _state["settings"]
    arch, tile = _found()
    problem = find_problem(settings, arch, tile)
    content = {"arch": arch, "verify_tile": tile, "release": settings.release, "ok": not problem}
    say("ddops_architecture", content | ({"problem": problem} if problem else {}))
    if problem:
        refuse(problem)


def _found() -> tuple[str, list[int]]:
    import torch
    from sglang.kernels.ops.attention.extend_attention import _get_block_sizes_for_extend_attention

    major, minor = torch.cuda.get_device_capability()
    _, _, _, queries, keys, warps = _get_block_sizes_for_extend_attention(*_MLA)
    return f"sm_{major}{minor}", [int(queries), int(keys), int(warps)]
