"""The drafter that DDTREE drafts with: a DFlash block drafter, how it is trained, and what it accepts.

It runs where the engine's packages are (torch, transformers, safetensors). Nothing here is part of a release: a host
gets the weights that this makes.
"""
