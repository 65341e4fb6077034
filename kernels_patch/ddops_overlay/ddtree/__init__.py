"""Speculative algorithm DDTREE: a tree of the DFlash drafter's proposals, verified in one pass of the target."""
