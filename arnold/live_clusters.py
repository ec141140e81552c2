"""What ``--cluster`` names, opened: a file, or a live cluster, which is only read.

``kube:[CONTEXT]`` is the Kubernetes cluster of a context of the kubeconfig, its current one unless said; ``slurm:`` the
Slurm that ``scontrol`` reaches.  A live cluster is read as the files that its own tools print of it, by the same
readers.  A file with such a name is given as ``./kube:...``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ground.errors import InvalidInput
from ground.files import Source
from topology.slurm_snapshot import NO_REQUEST, SlurmRequest

if TYPE_CHECKING:
    from extender.live_cluster import ListedCluster

KUBERNETES, SLURM = "kube:", "slurm:"  # With what the name of a live cluster begins


@dataclass(frozen=True, slots=True)
class OpenedCluster:
    """What was read of a cluster, and what lies over it by its own word."""

    topology: Source | str  # the text of a format that is known, or the name of its file, which is yet to be read
    in_use: tuple[Source, ...] = ()  # lists of nodes in use, or with states, as of --busy
    notes: tuple[str, ...] = ()  # what a user should know, one sentence each


def open_cluster(
    name: str, *, format: str | None = None, gpu_resource: str | None = None, request: SlurmRequest = NO_REQUEST
) -> OpenedCluster:
    """Return what is to be read of the cluster of that name; a file is left to its reader.

    :param format: of a file; a live cluster has none.
    :param gpu_resource: of a live Kubernetes cluster, the resource that is GPUs; ``None`` = those of NVIDIA and AMD.
    :param request: what the job asks of a live Slurm; its partition may have a topology of its own.
    :raises ArnoldError: a live cluster cannot be read; each error says what to do.
    """
    live = name.startswith((KUBERNETES, SLURM))
    if live and format is not None:
        has_none = f"{name} is a live cluster, and no file of a format"
        raise InvalidInput(has_none, where="--format", fix="leave --format out, or give a file")
    if name.startswith(SLURM):
        if name != SLURM:
            fix = "write slurm: and choose the Slurm by SLURM_CONF, its partition by --partition"
            raise InvalidInput(f"{name!r}: nothing follows slurm:", where="--cluster", fix=fix)
        from topology.slurm_snapshot import ask_slurm

        topology, records, notes = ask_slurm(request)
        return OpenedCluster(topology, records, notes)
    if name.startswith(KUBERNETES):
        from extender.cluster_api.connect import WhichCluster
        from extender.live_cluster import list_cluster
        from topology.node_gpus import GPUS

        which = WhichCluster(context=name.removeprefix(KUBERNETES) or None)
        return open_kubernetes(list_cluster(which, gpus=GPUS if gpu_resource is None else (gpu_resource,)))
    return OpenedCluster(name)


def open_kubernetes(listed: ListedCluster) -> OpenedCluster:
    """Return what a live Kubernetes cluster said of its nodes; those that plans of gangs promise are in use."""
    promised = sorted(listed.promised)
    notes = []
    if promised:
        notes.append(f"promised to gangs by their plans, and so in use: {len(promised):,} nodes")
    if listed.plans is None:
        notes.append(
            "plans of gangs (gangplans.arnold.dev) may not be listed: nodes that are promised and not in use yet "
            "count as free"
        )
    plans = Source(f"plans of gangs of {listed.nodes.name}", "\n".join(promised), numbered=False)
    lists = (plans,) if promised else ()
    return OpenedCluster(listed.nodes, lists, tuple(notes))
