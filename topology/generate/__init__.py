"""Clusters that are made, not read: presets of published fabrics, the paper's settings, seeded state.

cluster = generate("minipods", minipods=4, nodes=128)
cluster = flag_some(fragment(cluster, 0.4, seed=1), 5, seed=1)
"""

from topology.generate.extend import with_domain
from topology.generate.grow import split_nodes
from topology.generate.paper import PAPER_SIZES, paper_cluster
from topology.generate.presets import fat_tree, hpn_segments, llama3_pods, minipods, nvl72
from topology.generate.registry import PRESETS, Preset, generate
from topology.generate.state import flag_some, fragment

__all__ = [
    "PAPER_SIZES",
    "PRESETS",
    "Preset",
    "fat_tree",
    "flag_some",
    "fragment",
    "generate",
    "hpn_segments",
    "llama3_pods",
    "minipods",
    "nvl72",
    "paper_cluster",
    "split_nodes",
    "with_domain",
]
