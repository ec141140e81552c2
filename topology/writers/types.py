"""What every writer of a topology format takes and returns, and what a format cannot carry of a cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from topology.cluster import DEFAULT_GPUS, Cluster
from topology.plugins import PluginGroup
from topology.taints import is_price, kept_out_by


@dataclass(frozen=True, slots=True)
class Rendering:
    """A cluster as text."""

    text: str
    notes: tuple[str, ...] = ()  # what the format could not carry, or only under another name; one sentence each


class TopologyWriter(Protocol):
    """Writes one format.  Registered as an entry point in the group ``arnold.topology_writers``: a class (or any
    callable without arguments) that makes an object with this face.
    """

    @property
    def name(self) -> str:
        """Name of the format, as in ``--to``."""

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster in this format; raise :class:`InvalidInput` for a name that the format cannot carry."""


TOPOLOGY_WRITERS: PluginGroup[TopologyWriter] = PluginGroup(
    "arnold.topology_writers", unknown="no topology format is written under the name", where="--to"
)
"""All formats that can be written."""


def bare_tree_losses(cluster: Cluster, format_name: str, *, as_blocks: bool = False) -> tuple[str, ...]:
    """Say what is lost in formats that carry the tree alone: no names of levels, no GPUs, no use, no flags.

    :param as_blocks: whether it is written as the blocks of Slurm, whose levels have names by themselves.
    """
    counts = {
        f"GPU counts other than {DEFAULT_GPUS}": np.count_nonzero(cluster.gpus != DEFAULT_GPUS),
        "types of GPU": sum(cluster.nodes_of_type.values()),
        "GPUs in use": np.count_nonzero(cluster.free_gpus < cluster.gpus),
        "flags": len(cluster.flags),
        "nodes kept out": len(cluster.kept_out),
    }
    kept = _BLOCK_LEVEL if as_blocks and cluster.blocks is not None else None
    levels = ", ".join(level.name for level in cluster.levels if kept is None or not kept.fullmatch(level.name))
    lost = [f"names of levels ({levels})"] if levels else []
    if not as_blocks:
        lost += _block_losses(cluster)
    if second := ", ".join(level.name for level in cluster.second_levels):
        lost.append(f"second hierarchies ({second})")
    lost += [f"{what} ({count} of {len(cluster)} nodes)" for what, count in counts.items() if count]
    return (f"{format_name} cannot carry {'; '.join(lost)}: left out",) if lost else ()


def kept_out_otherwise(cluster: Cluster) -> list[int]:
    """Return the nodes that neither taints nor shared GPUs keep out, but something that a CSV has no column for."""
    others = cluster.kept_out.keys() - cluster.sharing.keys()
    return [i for i in sorted(others) if cluster.kept_out[i] != kept_out_by(cluster.taints.get(i, ()))]


_BLOCK_LEVEL = re.compile(r"block(?:-[0-9]+)?")


def _block_losses(cluster: Cluster) -> list[str]:
    """Return what is lost where blocks of Slurm are written as domains: their sizes, and those without nodes."""
    if cluster.blocks is None:
        return []
    sizes = ",".join(map(str, cluster.blocks.sizes))
    empty = len(set(cluster.blocks.names) - set(cluster.levels[-1].domains))
    return [*([f"sizes of blocks ({sizes})"] if sizes else []), *([f"blocks without nodes ({empty})"] if empty else [])]


def table_losses(cluster: Cluster, format_name: str) -> tuple[str, ...]:
    """Say what is lost in the CSV, which carries slowdown, begin and end of a flag alone."""
    flags = [flag for flag in cluster.flags.values() if not is_price(flag)]
    detailed = sum(flag.kind == "degraded" or any((flag.score, flag.evidence)) for flag in flags)
    notes = []
    if lost := _block_losses(cluster):
        notes.append(f"{format_name} cannot carry {'; '.join(lost)}: left out")
    if without := len(kept_out_otherwise(cluster)):
        notes.append(f"{format_name} has no word for nodes that are kept out, and calls them faulty: {without}")
    if detailed:
        notes.append(f"{format_name} carries slowdowns and times of flags and no more; reasons left out: {detailed}")
    if (trunks := cluster.trunks) is not None:
        notes.append(
            f"{format_name} cannot say that nothing joins the {len(trunks)} domains of {trunks.name}: "
            "there, jobs may span them"
        )
    return tuple(notes)
