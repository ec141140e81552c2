"""GPUs of a node, where a job leaves them to the cluster: what the nodes of each type that it admits have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scheduler.job import NodeSize, Parallelism
from topology.cluster import Cluster
from topology.errors import InvalidJob


@dataclass(frozen=True, slots=True)
class NodeSizes:
    """What was taken."""

    usual: int  # GPUs of a node of the type of which there are most
    by_type: tuple[NodeSize, ...]  # where types differ, most nodes first; empty = all nodes that it admits are alike
    # types into whose nodes the job cuts, where it does not into those of others that it would admit; else empty
    fitting: tuple[str, ...]
    note: str  # for the user, one sentence without its full stop


def node_sizes(cluster: Cluster, parallelism: Parallelism, gpu_types: Collection[str] | None) -> NodeSizes:
    """Return the GPUs of a node for a job that does not say them.

    :param gpu_types: types that the job admits; ``None`` = any, of which those are left out that it cannot be cut into.
    :raises InvalidJob: nodes of one type differ, or no type will do.
    """
    counted: dict[str, Counter[int]] = {}
    for of, gpus in zip(cluster.gpu_type_of.tolist(), cluster.gpus.tolist(), strict=True):
        counted.setdefault(cluster.gpu_types[of], Counter())[gpus] += 1
    known = {name: sizes for name, sizes in counted.items() if gpu_types is None or name in gpu_types}
    for name, sizes in known.items():
        _check_alike(name, sizes)
    found = sorted(
        (NodeSize(name, next(iter(sizes))) for name, sizes in known.items()),
        key=lambda one: (-known[one.gpu_type].total(), one.gpu_type),
    )
    if len({one.gpus for one in found}) < 2:
        usual = found[0].gpus if found else cluster.node_size
        return NodeSizes(usual, (), (), "" if cluster.gpus_assumed else _note([NodeSize("", usual)]))
    fitting = [one for one in found if _cuts(parallelism, one.gpus, named=gpu_types is not None)]
    if not fitting:
        parallelism.shape(found[0].gpus)
    cut = [one.gpu_type or "nodes of no type that is said" for one in found if one not in fitting]
    several = tuple(fitting) if len({one.gpus for one in fitting}) > 1 else ()
    named = tuple(one.gpu_type for one in fitting) if cut else ()
    return NodeSizes(fitting[0].gpus, several, named, _note(fitting, cut))


def _check_alike(name: str, sizes: Counter[int]) -> None:
    """Refuse nodes of one type with different numbers of GPUs."""
    if len(sizes) > 1:
        which = f"nodes of the type {name}" if name else "the cluster's nodes"
        counts = ", ".join(f"{count} with {gpus}" for gpus, count in sizes.most_common())
        raise InvalidJob(
            f"{which} differ in GPUs ({counts}), and the job does not say which it wants",
            where="gpus_per_node",
            fix=f"add gpus_per_node to the job, for example gpus_per_node: {max(sizes, key=lambda size: sizes[size])}",
        )


def _cuts(parallelism: Parallelism, gpus: int, *, named: bool) -> bool:
    """Return whether a job cuts into nodes of a size; raise ``InvalidJob`` where it names their type, and does not."""
    try:
        parallelism.shape(gpus)
    except InvalidJob:
        if named:
            raise
        return False
    return True


def _note(sizes: Sequence[NodeSize], cut: Sequence[str] = ()) -> str:
    if len({one.gpus for one in sizes}) == 1:
        said = f"gpus_per_node {sizes[0].gpus}, which is what the nodes have: the job does not say it"
    else:
        listed = ", ".join(f"{one.gpus} on {one.gpu_type or 'nodes of no type that is said'}" for one in sizes)
        said = f"gpus_per_node is what the nodes of each type have, as the job does not say it: {listed}"
    left_out = f"; left out, as the job does not cut into their nodes: {', '.join(cut)}" if cut else ""
    return f"{said}{left_out}"
