"""Clusters that are made, not read: ``flag_some(fragment(generate("minipods"), 0.4, seed=1), 5, seed=1)``."""

from topology.generate.cluster_state import flag_some, fragment, with_domain
from topology.generate.presets import (
    PAPER_SIZES,
    PRESETS,
    Preset,
    fat_tree,
    generate,
    hpn_segments,
    llama3_pods,
    minipods,
    nvl72,
    paper_cluster,
    split_nodes,
)

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
