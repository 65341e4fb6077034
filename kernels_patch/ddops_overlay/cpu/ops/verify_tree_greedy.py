"""Greedy verification of a draft tree: the longest path from the root whose tokens are the target's own choices.

    at the root: last = 0
    among last's children, in sibling order, take the first c with candidates[c] = target_predict[last]
    found: accept c, predicts[last] = candidates[c], last = c, again; none: predicts[last] = target_predict[last], the
    bonus token, and stop

accept_index[b] lists the accepted rows of the flat batch, root first; the rest is left as it is (-1).
accept_token_num[b] counts the accepted drafts, neither root nor bonus. At most accept_index.shape[1] - 1 are accepted.
Source: sgl-kernel, csrc/speculative/eagle_utils.cu, VerifyTreeGreedy (SpecInfer, arXiv 2305.09781, algorithm 2).
"""

from __future__ import annotations

import torch


def verify_tree_greedy(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    deepest = accept_index.shape[1] - 1
    tokens, rows, chosen = candidates.tolist(), retrive_index.tolist(), target_predict.tolist()
    children, siblings = retrive_next_token.tolist(), retrive_next_sibling.tolist()
    for b in range(len(tokens)):
        path = [0]
        while len(path) <= deepest:
            wanted = chosen[b][path[-1]]
            node = children[b][path[-1]]
            while node != -1 and tokens[b][node] != wanted:
                node = siblings[b][node]
            if node == -1:
                break
            path.append(node)
        for depth, node in enumerate(path):
            # at an accepted node the target's choice is the next node's token, at the last one the bonus
            predicts[rows[b][node]] = chosen[b][node]
            accept_index[b, depth] = rows[b][node]
        accept_token_num[b] = len(path) - 1
