"""Speculative algorithm DDTREE: a tree of the DFlash drafter's proposals, verified in one pass of the target.

plan.py       what of SGLang it touches        algorithm.py  its registration
arguments.py  refusals and derived arguments   worker.py     one step
draft.py      the drafter's pass               sampler.py    its logits to a tree, inside the drafter's graph
attention.py  the target's Triton back-end     verify.py     the target's pass
buffers.py    what graphs hold by address      limits.py     where a request must end
embeddings.py their type in eager passes       rules.py      a rule that was broken, by name
audit.py      checks of every replay           selftest.py   proof at start-up
"""

NAME = "DDTREE"
