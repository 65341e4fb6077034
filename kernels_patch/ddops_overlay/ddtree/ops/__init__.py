"""The operations of one DDTREE step, one a file: a plain PyTorch reference beside each Triton kernel.

Names of sizes, the same in every file:

    bs  requests            L  positions that the drafter predicts (its block size - 1)
    B   budget: tree nodes  K  candidates a position
    N   B + 1: rows that the target verifies for a request; row 0 is the root, the last committed token
    P   L + 1: the longest accepted path, root included

A function named after the file takes CUDA tensors with the kernel and all others with the reference.
"""
