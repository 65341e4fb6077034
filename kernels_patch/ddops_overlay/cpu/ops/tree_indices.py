"""From each request's N x N ancestor mask: positions, and the tree as first-child / next-sibling links.

Node 0 is the root and parents come before children. With A[i, j] = mask[i, j] and j < i (a proper ancestor):

    depth(i)        = sum_j A[i, j]
    parent(i)       = max {j : A[i, j]}, -1 for the root
    position(i)     = verified_seq_len + depth(i)
    next_token(i)   = min {k : A[k, i]}                                 the first child
    next_sibling(i) = min {k > i : parent(k) = parent(i)}, for i not the root
    index(i)        = request * N + i                                   row in the flat batch

-1 stands for none. Source: sgl-kernel, csrc/speculative/ngram_utils.cu, reconstructIndicesFromTreeMask (whose
spelling `retrive` SGLang's callers keep).
"""

from __future__ import annotations

import torch


def reconstruct_indices_from_tree_mask(
    tree_mask: torch.Tensor,
    verified_seq_len: torch.Tensor,
    positions: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    batch_size: int,
    draft_token_num: int,
) -> None:
    n = draft_token_num
    ancestor = tree_mask.view(batch_size, n, n).bool().tril(-1)
    node = torch.arange(n, device=tree_mask.device)

    positions.view(batch_size, n).copy_(ancestor.sum(-1) + verified_seq_len.view(-1, 1))
    retrive_index.view(batch_size, n).copy_(torch.arange(batch_size * n).view(batch_size, n))
    retrive_next_token.view(batch_size, n).copy_(_first(ancestor, node.view(1, n, 1), dim=1))

    parent = torch.where(ancestor, node, -1).amax(-1)
    sibling = (parent.unsqueeze(2) == parent.unsqueeze(1)) & (parent.unsqueeze(2) >= 0)
    later = node.view(n, 1) < node.view(1, n)
    retrive_next_sibling.view(batch_size, n).copy_(_first(sibling & later, node.view(1, 1, n), dim=2))


def _first(candidates: torch.Tensor, node: torch.Tensor, dim: int) -> torch.Tensor:
    """The smallest node where candidates is true along dim, -1 where there is none."""
    n = candidates.shape[dim]
    smallest = torch.where(candidates, node, n).amin(dim)
    return torch.where(smallest == n, -1, smallest)
