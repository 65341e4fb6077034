"""The target's hidden rows of the accepted path, for the drafter: rows in the order of the path, not of the tree.

    out[b * P + k] = hidden[path[b, k]]

Shapes: hidden [bs * N, H]; path [bs, P] int64 rows of the flat batch; out [bs * P, H]. Rows behind a request's path
are the root's; the drafter's append leaves them out by `lens`. One gather of PyTorch's, whose index is int64.
"""

from __future__ import annotations

import torch


def path_rows(hidden: torch.Tensor, path: torch.Tensor) -> torch.Tensor:
    return hidden.index_select(0, path.flatten())
