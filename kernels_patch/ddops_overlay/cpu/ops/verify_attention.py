"""Attention of the N draft-tree nodes of one request over its prefix of P tokens and over each other.

    out[i] = softmax(scale * q[i] k^T + (0 where mask[i] else -inf)) v          i in 0..N-1

q is N x H x D; k and v are (P + N) x Hkv x D, the tree's own rows last; query head h reads KV head
h // (H / Hkv). mask is N x (P + N): the prefix is always seen, and of the tree a node sees its ancestors and itself.
Source of the two mask layouts: SGLang 0.5.16, speculative/eagle_utils.py, TreeMaskMode.
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention


def verify_attention(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, scale: float
) -> torch.Tensor:
    q, k, v = (x.movedim(0, 1).unsqueeze(0) for x in (query, keys.to(query.dtype), values.to(query.dtype)))
    grouped = query.shape[1] != keys.shape[1]
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=grouped)
    return out.squeeze(0).movedim(0, 1)


def split_masks(custom_mask: torch.Tensor | None, prefixes: list[int], width: int) -> list[torch.Tensor]:
    """The N x (P + N) mask of each request, from the flat mask of the batch.

    None: a chain. QLEN_ONLY: sum of N * N, the tree alone. FULL_MASK: sum of N * (P + N).
    """
    sizes_full = [width * (prefix + width) for prefix in prefixes]
    if custom_mask is None:
        chain = torch.ones(width, width, dtype=torch.bool).tril()
        return [_with_prefix(chain, prefix) for prefix in prefixes]
    if custom_mask.numel() == len(prefixes) * width * width:
        trees = custom_mask.view(-1, width, width).bool()
        return [_with_prefix(tree, prefix) for tree, prefix in zip(trees, prefixes, strict=True)]
    if custom_mask.numel() == sum(sizes_full):
        return [part.view(width, -1).bool() for part in custom_mask.split(sizes_full)]
    raise ValueError(
        f"a verify mask of {custom_mask.numel()} elements fits neither N = {width} alone nor prefixes {prefixes}"
    )


def _with_prefix(tree: torch.Tensor, prefix: int) -> torch.Tensor:
    return torch.cat([torch.ones(tree.shape[0], prefix, dtype=torch.bool, device=tree.device), tree], dim=1)
