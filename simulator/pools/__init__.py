"""The cluster of a run, with what jobs hold of it: GPUs that are counted, or nodes on which placement decides.

``pool`` comes first: what the engine asks.  ``node_pool`` is what most runs have.
"""
