"""Runs inside the engine's environment, at the end of each `import torch`.

The wheel of torchvision on PyPI is a CUDA build: beside a CPU torch its library does not load, its operators do not
exist, and `import torchvision`, which SGLang needs, fails. This declares the two operators that the import
refers to. torch calls it through the entry-point group `torch.backends`.
"""

import torch

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_library = None


def declare() -> None:
    global _library
    if _library is None:
        # the declarations live as long as this object
        _library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            _library.define(name + _SCHEMA)
